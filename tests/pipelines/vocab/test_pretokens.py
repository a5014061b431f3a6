"""Words are counted as `tokenizers` cuts whole texts, to the last one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.vocab import pretokens
from pipelines.vocab.pretokens import PreTokens
from tests.pipelines.vocab.slow import bert_words


def counted(texts: list[str], counter: PreTokens) -> dict[str, int]:
    found = counter.count(pa.array(texts, pa.string()))
    assert found.texts.unique().equals(found.texts)
    return dict(zip(found.texts.to_pylist(), found.counts.tolist(), strict=True))


TRICKY = (
    "aZ9 .中文,\t\n\r\u00a0\u3000\u2028\x0b\x85\x00\ufffd\u200b\u200d\ufeff"  # white space, and what goes
    "\u0301\u0345\u0903\u302e\u0e33éßİΣς½ﬁ≠\u037e"  # marks, and what changes its length
    "가\u1100\uf900😀𠀀\U0001d165#[]"
)


@pytest.mark.parametrize("lowercase", [True, False])
@settings(deadline=None)
@given(texts=st.lists(st.text(st.one_of(st.sampled_from(TRICKY), st.characters(exclude_categories=["Cs"])))))
def test_they_are_those_of_tokenizers(lowercase: bool, texts: list[str]) -> None:
    assert counted(texts, PreTokens(lowercase=lowercase)) == bert_words(texts, lowercase=lowercase)


def test_texts_stay_apart_whatever_they_begin_and_end_with() -> None:
    texts = ["to", "gether", "", "a", "\u0301b", " c", "[MASK]", "\u200d"]
    found = counted(texts, PreTokens(lowercase=True))
    assert found == {"to": 1, "gether": 1, "a": 1, "b": 1, "c": 1, "[": 1, "mask": 1, "]": 1}


def test_slices_and_forgetting_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Wörter, {n} 个词。" * (n % 5) for n in range(60)]
    monkeypatch.setattr(pretokens, "_SLICE_BYTES", 40)
    monkeypatch.setattr(pretokens, "_KEPT", 3)
    counter = PreTokens(lowercase=True)
    for some in (texts[:20], texts[20:], texts):
        assert counted(some, counter) == bert_words(some, lowercase=True)


def test_a_part_of_an_array_is_counted_alone() -> None:
    texts = pa.array(["one", "two two", "three"]).slice(1, 1)
    found = PreTokens(lowercase=True).count(texts)
    assert (found.texts.to_pylist(), found.counts.tolist()) == (["two"], [2])
