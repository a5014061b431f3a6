"""The model against the slow one, against a sum worked out by hand, and in KenLM's own reader."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.ngrams.count import SPECIALS
from pipelines.ngrams.discounts import FALLBACK, DiscountError
from pipelines.ngrams.estimate import Model, estimate
from pipelines.ngrams.tokens import number, words_of
from tests.pipelines.ngrams import slow

WORDS = st.integers(0, 30).map(lambda n: "abcdefgh"[min(7, n.bit_length())] if n else "<s>")
CORPORA = st.lists(st.lists(WORDS, max_size=7), max_size=25)
PRUNES = st.sampled_from([(), (0, 1), (0, 0, 1), (0, 1, 2), (1,), (2,)])


def model(
    lines: Sequence[str], order: int, prune: Sequence[int] = (), fallback: Sequence[float] | None = FALLBACK
) -> Model:
    found = number([words_of(pa.array(lines, pa.string()))])
    ids = found.numbers + np.uint32(len(SPECIALS))
    vocabulary = pa.concat_arrays([pa.array(SPECIALS), found.vocabulary])
    return estimate(ids, found.lengths, vocabulary, order, prune, fallback)


def rows(lines: Sequence[str], order: int, prune: Sequence[int], tmp_path) -> list[dict]:
    path = tmp_path / "model.arpa"
    path.write_bytes(b"".join(model(lines, order, prune).arpa()))
    return slow.read_arpa(str(path))


@settings(max_examples=150, deadline=None)
@given(CORPORA, st.integers(2, 5), PRUNES)
def test_every_number_is_that_of_the_slow_way(tmp_path_factory, corpus, order, prune):
    prune = prune[:order]
    wanted = slow.estimate(corpus, order, prune, FALLBACK)
    found = rows([" ".join(s) for s in corpus], order, prune, tmp_path_factory.mktemp("arpa"))
    assert [list(grams) for grams in found] == [list(grams) for grams in wanted.grams]
    for mine, theirs in zip(found, wanted.grams, strict=True):
        for gram, numbers in theirs.items():
            assert mine[gram] == pytest.approx(numbers, abs=2e-5), gram


@settings(max_examples=50, deadline=None)
@given(CORPORA.filter(any), st.integers(2, 4), PRUNES)
def test_probabilities_after_every_context_sum_to_one(corpus, order, prune):
    """Also after pruning: what pruned n-grams had is in the back-off."""
    found = model([" ".join(s) for s in corpus], order, prune[:order])
    words = found.words.to_pylist()
    grams: dict[tuple[str, ...], tuple[float, float]] = {}
    for k, rows_of in enumerate(found.orders, 1):
        spelt = [found.packing.field(rows_of.keys, f).tolist() for f in range(k - 1, -1, -1)]
        for *ids, p, b in zip(*spelt, rows_of.probabilities.tolist(), rows_of.backoffs.tolist(), strict=True):
            grams[tuple(words[i] for i in ids)] = (p, b)

    def probability(context: tuple[str, ...], word: str) -> float:
        if (*context, word) in grams:
            return grams[(*context, word)][0]
        return grams.get(context, (0, 1.0))[1] * probability(context[1:], word)

    predicted = [gram[0] for gram in grams if len(gram) == 1 and gram != ("<s>",)]
    for context in [(), *(gram for gram in grams if len(gram) < order and gram[-1] not in ("</s>", "<unk>"))]:
        assert sum(probability(context, word) for word in predicted) == pytest.approx(1, abs=1e-5), context


def test_a_model_worked_out_by_hand():
    """a b / a c, order 2, discounts 0.5, 1, 1.5.

    Adjusted counts of words: a 1 (after <s>), b 1, c 1, </s> 2 (after b, c): sum 5. Weight of the uniform
    distribution (3 * 0.5 + 1 * 1) / 5 = 0.5 over the 5 words <unk> </s> a b c.
    """
    found = model(["a b", "a c"], 2)
    unigram, bigram = found.orders
    assert found.words.to_pylist() == ["<unk>", "<s>", "</s>", "a", "b", "c"]
    a = 0.5 / 5 + 0.5 / 5
    end = (2 - 1) / 5 + 0.5 / 5
    assert unigram.probabilities.tolist() == pytest.approx([0.5 / 5, 1, end, a, a, a])
    # <s> a 2: weight of the lower order 1/2; a b, a c 1 each: 2 * 0.5 / 2; b </s>, c </s> 1 each: 0.5 / 1
    assert unigram.backoffs.tolist() == pytest.approx([1, 0.5, 1, 0.5, 0.5, 0.5])
    spelt = [found.packing.field(bigram.keys, f).tolist() for f in (1, 0)]
    assert list(zip(*spelt, strict=True)) == [(4, 2), (5, 2), (1, 3), (3, 4), (3, 5)]
    after_a = 0.5 / 2 + 0.5 * a
    assert bigram.probabilities.tolist() == pytest.approx(
        [0.5 + 0.5 * end, 0.5 + 0.5 * end, (2 - 1) / 2 + 0.5 * a, after_a, after_a]
    )


def test_discounts_worked_out_by_hand():
    """Ten words once, four twice, two three times, one four times: Y = 10 / 18."""
    lines = [f"x{i}" for i in range(10)]
    lines += [f"{a} y{i}" for i in range(4) for a in "pq"]
    lines += [f"{a} z{i}" for i in range(2) for a in "pqr"]
    lines += [f"{a} u" for a in "pqrs"]
    found = model(lines, 2)
    y = 14 / (14 + 2 * 4)  # p, q, r, s stand after <s> alone
    assert found.discounts.amounts[0].tolist() == pytest.approx(
        [0, 1 - 2 * y * 4 / 14, 2 - 3 * y * 2 / 4, 3 - 4 * y * 1 / 2]
    )
    assert found.discounts.fell_back == []


def test_special_symbols_in_text_are_white_space():
    assert b"".join(model(["a <s> b", "<unk> c </s> <UNK>"], 2).arpa()) == b"".join(
        model(["a b", "c"], 2).arpa()
    )


def test_the_start_of_a_sentence_has_the_probability_that_lmplz_writes(tmp_path):
    """0, not the -99 of other tools: it is never asked for. What has no mass at all has -99, not -inf."""
    assert rows(["a b", "a c"], 2, (), tmp_path)[0][("<s>",)][0] == 0
    path = tmp_path / "none.arpa"
    path.write_bytes(b"".join(model(["a b", "a c"], 2, fallback=(0, 0, 0)).arpa()))
    assert slow.read_arpa(str(path))[0][("<unk>",)][0] == -99


def test_white_space_parts_words_as_for_lmplz():
    words = words_of(pa.array(["a\tb  c\r", "", " \u00a0 x\u3000y ", "q\0r"]))
    assert words.words.to_pylist() == ["a", "b", "c", "\u00a0", "x\u3000y", "q", "r"]
    assert words.lengths.tolist() == [3, 0, 2, 2]
    sliced = words_of(pa.array(["a", "b c", "d"]).slice(1, 2))
    assert (sliced.words.to_pylist(), sliced.lengths.tolist()) == (["b", "c", "d"], [2, 1])


@pytest.mark.parametrize("lines", [["a"], ["the same"] * 1000, ["a b c", "a b d", "c d", "e"]])
def test_a_corpus_too_small_for_discounts_says_so(lines):
    with pytest.raises(DiscountError, match=r"order [12] .*(dedup).*\[0\.5, 1\.0, 1\.5\]"):
        model(lines, 3, fallback=None)
    assert model(lines, 3).discounts.fell_back


@pytest.mark.parametrize("lines", [[], [""], ["<s>", "\t"]])
def test_a_corpus_without_words_needs_no_discounts(lines):
    found = model(lines, 3, fallback=None)
    assert found.discounts.fell_back == [1, 2, 3]
    assert found.words.to_pylist() == list(SPECIALS)


@pytest.mark.parametrize(
    ("prune", "what"), [((2, 1), "do not fall"), ((-1,), "0 or more"), ((0, 0, 0), "at most 2")]
)
def test_thresholds_that_cannot_be(prune, what):
    with pytest.raises(ValueError, match=what):
        model(["a b"], 2, prune)


@pytest.mark.parametrize(
    "lines",
    [[], ["a"], [""], ["word"] * 3, ["a b c", "a b d e", "c d", "x\u00a0y x\u3000y", "a <UNK> b <unk>"]],
)
@pytest.mark.parametrize("order", [2, 3, 5])
def test_kenlm_reads_the_file(lines, order, tmp_path):
    kenlm = pytest.importorskip("kenlm")
    path = tmp_path / "model.arpa"
    path.write_bytes(b"".join(model(lines, order).arpa()))
    loaded = kenlm.Model(str(path))
    assert loaded.order == order
    scores = [s for s, _, _ in loaded.full_scores("a b zzz")]
    assert len(scores) == 4
    assert all(math.isfinite(s) and s <= 0 for s in scores)
    grams = slow.read_arpa(str(path))
    assert loaded.score("zzz", bos=False, eos=False) == pytest.approx(grams[0][("<unk>",)][0], abs=1e-6)


def test_two_columns_give_what_one_does(monkeypatch):
    """A vocabulary for which trigrams need two columns."""
    from pipelines.ngrams import keys

    lines = ["a b c d", "b c a", "a b d d a c", "c", "d a b c"] * 2
    wanted = b"".join(model(lines, 4).arpa())
    monkeypatch.setattr(keys.Packing, "of", classmethod(lambda cls, words: cls(30)))
    assert b"".join(model(lines, 4).arpa()) == wanted
