from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.encode.marks import _is_mark, cover_marks
from pipelines.encode.source import Texts
from pipelines.encode.tokenizer import Tokens
from pipelines.ragged import bounds
from tests.pipelines.annotated import config_of, encode
from tests.pipelines.test_encode import assert_sound, vocab
from tests.pipelines.test_span import question, spans
from tests.pipelines.test_tokenizer import BERT

TEXTS = st.lists(st.text("ae中ק \u0301\u0302\u05bc\ufe0f\u200b\u0e33❤한", max_size=12), max_size=5)


def covered(texts: list[str]) -> tuple[Tokens, Tokens]:
    bare = BERT.encode_texts(texts)
    return bare, cover_marks(bare, Texts(texts, bounds([len(t) for t in texts])))


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_stops_move_over_marks_that_no_token_holds(texts: list[str]) -> None:
    bare, wide = covered(texts)
    for name in ("ids", "starts", "offsets"):
        assert getattr(wide, name) is getattr(bare, name)
    assert wide.stops.dtype == bare.stops.dtype
    for i, text in enumerate(texts):
        low, high = bare.offsets[i], bare.offsets[i + 1]
        for t in range(low, high):
            want, limit = int(bare.stops[t]), int(bare.starts[t + 1]) if t + 1 < high else len(text)
            while want < limit and unicodedata.category(text[want]) == "Mn":
                want += 1
            assert wide.stops[t] == want


def test_composed_and_decomposed_letters_end_alike() -> None:
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, "ba é")
        _, wide = covered([text])
        assert text[wide.starts[-1] : wide.stops[-1]] == unicodedata.normalize(form, "é")
    _, wide = covered(["ק\u05bc\u05b0", "\u0301"])  # the next text's mark is not the letter's
    assert wide.stops.tolist() == [3]


def test_every_mark_is_known() -> None:
    marks = {point for point in range(0x110000) if unicodedata.category(chr(point)) == "Mn"}
    assert set(np.flatnonzero(_is_mark()).tolist()) == marks


def test_texts_without_marks_are_left_alone() -> None:
    bare, wide = covered(["我们 go\u3000 on", "\u200b", ""])
    assert wide is bare


def test_an_answer_keeps_its_last_mark(tmp_path: Path) -> None:
    """A vowel sign is part of the letter; a gold answer that lacks it is still about that token."""
    text, words = "it is cafe\u0301 time", ("it", "is", "cafe", "time", "what")
    documents = [
        question("whole", "what", text, ("cafe\u0301", 6)),
        question("half", "what", text, ("cafe", 6)),
        question("more", "what", text, ("cafe\u0301 t", 6)),
    ]
    run = encode(tmp_path, config_of("span", max_length=24, encode=vocab(tmp_path, *words)), documents)
    assert_sound(run)
    assert spans(run) == [("whole#0", "cafe\u0301"), ("half#0", "cafe\u0301")]
    assert run.rejects == {"answer_not_on_tokens": 1}
