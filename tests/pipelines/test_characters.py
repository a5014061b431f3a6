from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors

from pipelines.encode import characters as module
from pipelines.encode.characters import Characters
from pipelines.encode.tokenizer import Tokenizer, load_tokenizer
from tests.pipelines.annotated import SAMPLES

CONTROL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# What the rules of BERT treat each in their own way: letters of both sizes, digits, Chinese (also compatibility forms,
# which decompose), kana and Hangul (which decompose too), signs, white space of all kinds, controls, marks that are
# dropped, put in order or kept, joiners, emoji and their selectors, right-to-left and letters that grow in lower case.
ODD = (
    "abAB19中国，。、「」豈\U0002f800\u3400\U00020000がガ゙\u3099ｶﾞ한ᄒ\u1161\u11ab々〇ー～·…—_-'\"[]#"
    " \u3000\u00a0\u2003\u2028\u2029\t\n\r\x0b\x0c\x1c\x85\x00\x07\u200b\u200c\u200d\u00ad\ufeff\ufffd\ue000\u0378"
    "éÉ\u0301\u0327\u0323\u0344\u0345\u0f71\u0f73\u0338\u20e3\u302e\u302a\u0903\u093c\U0001d15e\U0001d165"
    "\ufe0f\U000e0100ＡｚßİıςΣŉǰΐﬁ½²א\u05b0بद\u0939क\u093cไ\u0e48👨👩🏽🇨❤≠\u212a"
)
CHARACTERS = st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"]))
TEXTS = st.lists(
    st.one_of(
        st.text(CHARACTERS, max_size=25),
        st.lists(
            st.sampled_from([*"中国。a1 \u0301\u3099\u200d", "[SEP]", "[MASK]", "x" * 101]), max_size=12
        ).map("".join),
    ),
    max_size=4,
)


def made(**rules: bool | None) -> Tokenizer:
    """A tokenizer that knows much of `ODD`, also inside words."""
    return of_core(normalizers.BertNormalizer(**rules))


def of_core(normalizer: normalizers.Normalizer | None, pre: object = None, **more: object) -> Tokenizer:
    letters = [c for c in dict.fromkeys(ODD + "".join(map(str.lower, ODD))) if not c.isspace()]
    names = [*CONTROL, *letters, *(f"##{c}" for c in letters[::2]), "ab", "##ab", "19"]
    vocab = {name: i for i, name in enumerate(dict.fromkeys(names))}
    core = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", **more))
    if normalizer is not None:
        core.normalizer = normalizer
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer() if pre is None else pre
    return Tokenizer(core, "odd", b"")


BERTS = [
    made(lowercase=True),
    made(lowercase=False),
    made(lowercase=True, strip_accents=False),
    made(lowercase=False, strip_accents=True),
    made(clean_text=False),
    made(clean_text=False, strip_accents=False),
    made(handle_chinese_chars=False),
    of_core(None),
    of_core(normalizers.BertNormalizer(), max_input_chars_per_word=3),
    load_tokenizer(str(SAMPLES / "vocab.txt")),
    load_tokenizer(str(SAMPLES / "vocab.txt"), lowercase=False),
]


def plain(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """Ids, starts, stops and counts by `tokenizers` alone, text by text."""
    encodings = [tokenizer._core.encode(text, add_special_tokens=False) for text in texts]
    spans = [span for e in encodings for span in e.offsets]
    ids = [i for e in encodings for i in e.ids]
    return [ids, [a for a, _ in spans], [b for _, b in spans], [len(e.ids) for e in encodings]]


def by_characters(tokenizer: Tokenizer) -> bool:
    return isinstance(getattr(tokenizer._encode, "__self__", None), Characters)


def check(texts: list[str], berts: list[Tokenizer] = BERTS) -> None:
    for tokenizer in berts:
        found = tokenizer._encode(texts)
        assert [part.tolist() for part in found] == plain(tokenizer, texts)
        assert [part.dtype for part in found] == [np.int32] * 3 + [np.int64]


def test_these_go_by_characters() -> None:
    assert all(map(by_characters, BERTS))


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_tokens_are_those_of_tokenizers(texts: list[str]) -> None:
    check(texts)


@pytest.mark.heavy
@settings(max_examples=100_000, deadline=None)
@given(st.sampled_from(BERTS), TEXTS)
def test_tokens_are_those_of_tokenizers_at_length(tokenizer: Tokenizer, texts: list[str]) -> None:
    check(texts, [tokenizer])


@pytest.mark.heavy
@pytest.mark.parametrize("number", range(len(BERTS)))
def test_every_code_point_between_all_kinds_of_neighbours(number: int) -> None:
    valid = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for start in range(0, len(valid), 4096):
        some = valid[start : start + 4096]
        check([f"{c}中{c}国a{c}b {c} é{c}{c}，" for c in some], [BERTS[number]])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\u0301",
        "中\u0301国",
        "か\u3099き",
        "a \u0301b",
        "\u200d中\ufe0f文",
        "中\x00\x00国",
        "❤\ufe0f好",
        "[SEP]中[MASK]",
        "x" * 300,
        "é" * 60 + "中",
        "豈\u0338更",
    ],
)
def test_marks_and_what_they_touch(text: str) -> None:
    check([text])
    check(["中", text, "\u0301", text, ""])


def test_stretches_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_CHARS", 20)
    tokenizer = made()
    for words in ("alpha beta 中 gamma", "delta beta 国 alpha", "alpha", "b1 b2 b3 中"):
        check([words, f"{words} {words}"], [tokenizer])


# --- tokenizers that go the plain way ----------------------------------------------------------


def others() -> Iterator[Tokenizer]:
    yield of_core(normalizers.Sequence([normalizers.NFKC(), normalizers.BertNormalizer()]))
    yield of_core(normalizers.BertNormalizer(), pre_tokenizers.WhitespaceSplit())
    yield of_core(normalizers.NFC())
    core = tokenizers.Tokenizer.from_str(made()._core.to_str())
    core.add_tokens(["中国", AddedToken("a b", normalized=False)])
    yield Tokenizer(core, "added", b"")


def test_added_words_and_other_rules_go_the_plain_way() -> None:
    texts = ["中国 a b", "ﬁ 中，国", "19\u0301"]
    for tokenizer in others():
        assert not by_characters(tokenizer)
        assert [part.tolist() for part in tokenizer._encode(texts)] == plain(tokenizer, texts)


def test_special_tokens_and_templates_change_nothing(tmp_path: Path) -> None:
    core = tokenizers.Tokenizer.from_str(made()._core.to_str())
    core.add_special_tokens(["[CLS]", "[SEP]", "[ENT]"])
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    core.enable_truncation(3)
    core.save(str(tmp_path / "tokenizer.json"))
    loaded = load_tokenizer(str(tmp_path / "tokenizer.json"))
    assert by_characters(loaded)
    check(["中[ENT]国[SEP] a[CLS]b", "[ENT]"], [loaded])


# --- real text ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "kbert/chnsenticorp/dev.tsv",
        "kbert/medical_ner/test.tsv",
        "ud/zh/hk.conllu",
        "sgnet/squad_sample.json",
    ],
)
def test_real_text(real_data: Path, name: str, lowercase: bool) -> None:
    tokenizer = load_tokenizer(str(real_data / "bert/bert-base-chinese-vocab.txt"), lowercase=lowercase)
    check((real_data / name).read_text(encoding="utf-8").split("\n")[:1500], [tokenizer])
