"""Coarse columns: against a loop that says the rule literally, and by hand."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.config import ConfigError
from pipelines.encode import columns
from pipelines.encode.assemble import NONE, Rows
from pipelines.encode.backoff import coarse_columns
from pipelines.encode.coarse import CoarseUnits, CoarseVocabulary
from pipelines.encode.source import attach, read_texts, read_words
from pipelines.encode.tokenizer import Tokens, load_tokenizer
from pipelines.phrases.lexicon import PhraseLexicon
from tests.pipelines.annotated import (
    DEPRELS,
    SAMPLES,
    Annotation,
    annotate,
    config_of,
    document,
    encode,
    table_of,
)
from tests.pipelines.phrases.slow import slow_units

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
BERT = load_tokenizer(str(SAMPLES / "vocab.txt"))
WORDS = [
    "New",
    "york",
    "é",
    "unheardofing",
    "北京",
    "好",
    "龘",
    "a",
    "the",
    "[SEP]",
    "ing",
    "##ing",
    "\u200b",
]
PARTS = st.sampled_from([*WORDS, " ", " ", "。", "\n", "-", "👨", "\u0301"])
TEXTS = st.lists(
    st.lists(PARTS, max_size=25).map(" ".join) | st.lists(PARTS, max_size=25).map("".join), max_size=4
)
PHRASES = st.lists(
    st.lists(st.sampled_from([*WORDS, "-", "ing"]), min_size=2, max_size=4).map(tuple), max_size=8
)


class Coarse:
    """What the loop knows: entries of a coarse vocabulary and phrases, compared as the tokenizer compares text."""

    def __init__(self, entries: Sequence[str], phrases: Sequence[tuple[str, ...]]) -> None:
        self.ids: dict[str, int] = {}
        for number, entry in enumerate(entries, 5):
            self.ids.setdefault(BERT.normalize(entry), number)
        folded = (tuple(map(BERT.normalize, phrase)) for phrase in phrases)
        self.phrases = {p for p in folded if all(p)}

    def word(self, name: str) -> int | None:
        return None if name.startswith("##") and name != "##" else self.ids.get(name)

    def segment(
        self, text: str, note: Annotation, tokens: Tokens, kept: range
    ) -> tuple[list[int], list[int]]:
        """Coarse ids of a segment of a row, and which of them each fine token in `kept` has."""
        starts = tokens.starts.tolist()
        of = [word_at(note, start) for start in starts]
        living = sorted(set(of))
        names = {w: BERT.normalize(text[slice(*note.words[w])]) for w in living}
        plain = ["\0" if " " in text[slice(*note.words[w])] else names[w] for w in living]
        begins = slow_units(self.phrases, plain, [sentence_of(note, w) for w in living])
        ids: list[int] = []
        index: list[int] = []
        for low, high in itertools.pairwise([*begins, len(living)]):
            unit = living[low:high]
            whole = [t for t in range(len(starts)) if of[t] in unit]
            here = [t for t in whole if t in kept]
            phrase = self.ids.get(" ".join(names[w] for w in unit))
            if len(unit) > 1 and whole == here and phrase is not None:
                ids.append(phrase)
                index += [len(ids) - 1] * len(here)
                continue
            for word in unit:
                own = [t for t in here if of[t] == word]
                known = self.word(names[word])
                pieces = [self.ids.get(BERT.surface(tokens.ids[t]) or "") for t in own]
                if any(tokens.ids[t] == BERT.unknown_id for t in own):
                    pieces = [None]
                if not own:
                    continue
                if known is not None or None in pieces:
                    ids.append(UNK if known is None else known)
                    index += [len(ids) - 1] * len(own)
                else:
                    for piece in pieces:
                        ids.append(piece or 0)
                        index.append(len(ids) - 1)
        return ids, index


def word_at(note: Annotation, char: int) -> int:
    return next(i for i, (a, b) in enumerate(note.words) if a <= char < b)


def sentence_of(note: Annotation, word: int) -> int:
    return sum(a <= note.words[word][0] for a, _ in note.sentences)


def made(folder: Path, entries: Sequence[str], phrases: Sequence[tuple[str, ...]] | None) -> CoarseUnits:
    (folder / "coarse.txt").write_text("\n".join([*SPECIALS, *entries]) + "\n", encoding="utf-8")
    vocabulary = CoarseVocabulary(str(folder / "coarse.txt"), "", BERT)
    return CoarseUnits(vocabulary, None if phrases is None else PhraseLexicon(phrases, BERT.normalize))


@settings(max_examples=60, deadline=None)
@given(TEXTS, PHRASES, st.randoms(use_true_random=False))
def test_rows_equal_the_loop(texts: list[str], phrases: list[tuple[str, ...]], rng: random.Random) -> None:
    table = table_of([document(str(i), text) for i, text in enumerate(texts)])
    source = read_texts(table, ("",))
    tokens = BERT.encode_texts(source.strings)
    words, tied, _ = attach(tokens, source.chars, read_words(table, ("",), source.chars, DEPRELS))
    notes = [annotate(text, random.Random(f"0 {i}")) for i, text in enumerate(texts)]

    surfaces = sorted({BERT.surface(i) or "" for i in tokens.ids.tolist()} - set(SPECIALS))
    folded = {tuple(map(BERT.normalize, phrase)) for phrase in phrases}
    joined = sorted({" ".join(p) for p in folded if all(p)})
    candidates = sorted({*surfaces, *joined, "New", "new", "É", "york", "ing", "北京"})
    entries = [entry for entry in candidates if rng.random() < 0.6]
    lexicon = None if not phrases or not set(joined) & set(entries) else phrases

    full = np.flatnonzero(np.diff(tokens.offsets)).tolist()

    def span() -> tuple[int, int, int]:
        text = rng.choice(full)
        low, high = int(tokens.offsets[text]), int(tokens.offsets[text + 1])
        start = rng.randrange(low, high)
        return text, start, rng.randrange(start, high) + 1

    picked = [(span(), span() if rng.random() < 0.5 else (NONE, 0, 0)) for _ in range(6 if full else 0)]
    flat = np.array(picked, np.int64).reshape(-1, 2, 3)
    unended = (flat[:, 1, 0] >= 0) & np.array([rng.random() < 0.3 for _ in picked], bool)
    rows = Rows(flat[:, 0, 0], flat[:, :, 0], flat[:, :, 1], flat[:, :, 2], unended=unended)
    trunk = columns.lay_trunk(rows, source, tokens, BERT.special_ids, whole_texts=True)
    with TemporaryDirectory() as folder:
        units = made(Path(folder), entries, lexicon)
    columns_made, counters = coarse_columns(trunk, tied, units.find(source, words), units.vocabulary)
    rows_made = {
        name: [values[a:b].tolist() for a, b in itertools.pairwise(offsets)]
        for name, (values, offsets) in columns_made.items()
    }

    slow = Coarse(entries, lexicon or [])
    expected: dict[str, list[list[int]]] = {name: [] for name in rows_made}
    for r, sides in enumerate(picked):
        ids, types, index = [CLS], [0], [0]
        for side, (text, start, stop) in enumerate(sides):
            if text == NONE:
                break
            low, high = int(tokens.offsets[text]), int(tokens.offsets[text + 1])
            own = Tokens(*(column[low:high] for column in tokens[:3]), offsets=np.array([0, high - low]))
            found, places = slow.segment(texts[text], notes[text], own, range(start - low, stop - low))
            index += [len(ids) + place for place in places]
            ids += found
            types += [side] * len(found)
            if not (side and unended[r]):
                index.append(len(ids))
                ids.append(SEP)
                types.append(side)
        expected["coarse_ids"].append(ids)
        expected["coarse_token_type_ids"].append(types)
        expected["coarse_index"].append(index)
    assert rows_made == expected
    flat_ids = [i for ids in expected["coarse_ids"] for i in ids if i not in (CLS, SEP)]
    assert counters["coarse_tokens"] == len(flat_ids)
    assert counters["unknown_coarse_tokens"] == flat_ids.count(UNK)
    of_phrases = {slow.ids[p] for p in map(" ".join, slow.phrases) if p in slow.ids}
    assert counters["coarse_phrases"] == sum(i in of_phrases for i in flat_ids)


def row_of(
    folder: Path, text: str, entries: Sequence[str], phrases: Sequence[str] = (), max_length: int = 32
) -> tuple[list[str], list[int], dict[str, int]]:
    """Coarse tokens of a text as one row, the fine tokens that each has, and the counters."""
    folder.mkdir(exist_ok=True)
    (folder / "coarse.txt").write_text("\n".join([*SPECIALS, *entries]) + "\n", encoding="utf-8")
    (folder / "phrases.txt").write_text("\n".join(phrases), encoding="utf-8")
    coarse = {"vocab": str(folder / "coarse.txt")}
    coarse |= {"phrases": str(folder / "phrases.txt")} if phrases else {}
    config = config_of("classify", groups=["coarse"], max_length=max_length, encode={"coarse": coarse})
    run = encode(folder / "run", config, [document("a", text, label="x")], labels=["x"])
    assert run.report.ok, run.report.render()
    (row,) = run.rows
    names = [*SPECIALS, *entries]
    covered = Counter(row["coarse_index"])
    assert sorted(covered) == list(range(len(row["coarse_ids"])))
    tokens = [names[i] for i in row["coarse_ids"]]
    return tokens[1:-1], [covered[i] for i in range(1, len(tokens) - 1)], run.counters


def test_a_phrase_backs_off_to_words_to_pieces_to_unknown(tmp_path: Path) -> None:
    fine = [BERT.surface(i) for i in BERT.encode_ids(["unheardofing"])[0].tolist()]
    assert len(fine) > 2
    text, phrases = (
        "New York unheardofing 北京。New York",
        ["new york", "york unheardofing", "new york unheardofing"],
    )

    def of(name: str, *entries: str, max_length: int = 32) -> tuple[list[str], list[int], dict[str, int]]:
        return row_of(tmp_path / name, text, entries, phrases, max_length)

    n = len(fine)
    tokens, sizes, counters = of("whole", "new york unheardofing", "new york", "北京")
    assert (tokens, sizes) == (["new york unheardofing", "北京", "[UNK]", "new york"], [n + 2, 2, 1, 2])
    assert (counters["coarse_phrases"], counters["coarse_fallen_words"]) == (2, 0)
    # The longest phrase is the unit; that a shorter one is in the vocabulary does not help it.
    tokens, sizes, counters = of("words", "new york", "york", *map(str, fine))
    assert tokens == ["[UNK]", "york", *fine, "[UNK]", "[UNK]", "new york"]
    assert sizes == [1, 1, *[1] * n, 2, 1, 2]
    assert (counters["coarse_fallen_words"], counters["coarse_pieced_words"]) == (3, 1)
    assert (counters["coarse_tokens"], counters["unknown_coarse_tokens"]) == (n + 5, 3)
    tokens, sizes, _ = of("unknown", "new york", *map(str, fine[:-1]))
    assert tokens[2:4] == ["[UNK]", "[UNK]"] and sizes[2:4] == [n, 2]


def test_a_phrase_that_the_edge_cuts_falls_and_a_word_keeps_its_token(tmp_path: Path) -> None:
    entries = ["a", "new york", "new", "york unheardofing", "york", "unheardofing"]

    def of(name: str, text: str, *phrases: str) -> tuple[list[str], list[int]]:
        return row_of(tmp_path / name, text, entries, phrases, max_length=8)[:2]

    assert of("fits", "a a a a new york a", "new york") == (["a"] * 4 + ["new york"], [1] * 4 + [2])
    assert of("cut", "a a a a a new york", "new york") == (["a"] * 5 + ["new"], [1] * 6)
    inside = of("inside", "a a a york unheardofing", "york unheardofing")
    assert inside == (["a"] * 3 + ["york", "unheardofing"], [1] * 4 + [2])


def test_no_phrase_goes_over_sentences_choices_or_segments(tmp_path: Path) -> None:
    assert row_of(tmp_path, "new。york", ["new york", "new 。", "。"], ["new york"])[0] == [
        "[UNK]",
        "。",
        "[UNK]",
    ]
    (tmp_path / "coarse.txt").write_text("\n".join([*SPECIALS, "new york"]), encoding="utf-8")
    (tmp_path / "phrases.txt").write_text("new york", encoding="utf-8")
    coarse = {"vocab": str(tmp_path / "coarse.txt"), "phrases": str(tmp_path / "phrases.txt")}
    config = config_of("choice", groups=["coarse"], encode={"coarse": coarse})
    asked: dict[str, Any] = {
        "text_pair": "new\nyork",
        "choice_starts": [0, 4],
        "choice_stops": [3, 8],
        "label": "0",
    }
    run = encode(tmp_path / "choice", config, [document("a", "new", pair=True, **asked)])
    assert run.rows[0]["coarse_ids"] == [CLS, UNK, SEP, UNK, SEP] * 2
    assert run.report.ok


def test_words_alone_give_a_token_a_word(tmp_path: Path) -> None:
    """A vocabulary of whole words, as before there were phrases and pieces."""
    tokens, sizes, counters = row_of(tmp_path, "New unheardofing 龘龘 york", ["new", "york"])
    assert tokens == ["new", "[UNK]", "[UNK]", "york"]
    assert sizes[0] == sizes[3] == 1 and sizes[1] > 1 and sizes[2] == 2
    assert not any(counters[f"coarse_{name}"] for name in ("phrases", "fallen_words", "pieced_words"))


def test_a_vocabulary_without_any_of_the_phrases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"encode\.coarse\.phrases: none of the 2 phrases of .*treegraft vocab"
    ):
        made(tmp_path, ["new"], [("new", "york"), ("york", "new")])
