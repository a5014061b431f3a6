from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.encode.assemble import NONE, Cutter, Rows
from pipelines.encode.dice import CERTAIN, Bits, below, coins, streams
from pipelines.encode.pretrain import pretrain_rows, sentence_bounds
from pipelines.encode_config import PretrainConfig
from pipelines.ragged import bounds
from tests.pipelines.spans import spans, tokens_of

Documents = list[list[int]]
"""Sentence lengths, in tokens, of each document."""

DOCUMENTS = st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=6)


def assemble(documents: Documents, max_length: int = 16, seed: int = 0, **settings: object) -> Rows:
    texts = ["x" * sum(lengths) for lengths in documents]
    tokens = tokens_of(texts)
    starts = [s for lengths in documents for s in bounds(lengths)[:-1].tolist()]
    found = sentence_bounds(tokens, tokens.offsets, starts, bounds([len(d) for d in documents]))
    names = [f"d{i}" for i in range(len(documents))]
    return pretrain_rows(PretrainConfig(**settings), max_length, seed, names, found, Cutter(texts, tokens))


@given(DOCUMENTS)
def test_sentence_bounds(documents: Documents) -> None:
    texts = ["x" * sum(lengths) for lengths in documents]
    tokens = tokens_of(texts)
    starts = [s for lengths in documents for s in bounds(lengths)[:-1].tolist()]
    found = sentence_bounds(tokens, tokens.offsets, starts, bounds([len(d) for d in documents]))
    for i, lengths in enumerate(documents):
        want = sorted({int(tokens.offsets[i] + n) for n in bounds(lengths)})
        assert found[i] == (want if sum(lengths) else [])


def test_tokens_outside_all_sentences_belong_to_their_neighbours() -> None:
    tokens = tokens_of(["0123456789", "ab"])
    assert sentence_bounds(tokens, tokens.offsets, [2, 5], [0, 2, 2]) == [[0, 5, 10], [10, 12]]


# --- pairs ------------------------------------------------------------------------------------


def bert_instances(
    documents: Documents, budget: int, seed: int, share: float, short: float
) -> list[tuple[int, ...]]:
    """BERT's create_instances_from_document on lists of tokens, with the differences that are documented."""
    sentences, at = [], 0
    for lengths in documents:
        own = []
        for length in lengths:
            own.append(list(range(at, at + length)))
            at += length
        sentences.append([s for s in own if s])
    full = [d for d, own in enumerate(sentences) if own]
    instances = []
    for d in full:
        (bits,), document = streams((seed, 0), [f"d{d}"]), sentences[d]
        others = [o for o in full if o != d] if share > 0 else []

        def target_length(bits: Bits = bits) -> int:
            return 2 + below(bits, budget - 1) if bits() < short * CERTAIN else budget

        current: list[list[int]] = []
        target = target_length()
        i = 0
        while i < len(document):
            current.append(document[i])
            if i == len(document) - 1 or sum(map(len, current)) >= target:
                random_next = bool(others) and bits() < share * CERTAIN
                if len(current) == 1 and not random_next:
                    if i < len(document) - 1:
                        i += 1
                        current.append(document[i])
                    elif i > 0:
                        current.insert(0, document[i - 1])
                    elif others:
                        random_next = True
                    else:
                        break
                a_end = 1
                if len(current) >= 2:
                    a_end = 1 + below(bits, len(current) - 1)
                a = [t for s in current[:a_end] for t in s]
                b: list[int] = []
                if random_next:
                    other = others[below(bits, len(others))]
                    for j in range(below(bits, len(sentences[other])), len(sentences[other])):
                        b.extend(sentences[other][j])
                        if len(b) >= target - len(a):
                            break
                    i -= len(current) - a_end
                else:
                    other = d
                    b = [t for s in current[a_end:] for t in s]
                left, right = len(a), len(b)
                while left + right > budget:
                    left, right = (left - 1, right) if left > right else (left, right - 1)
                for side, keep in ((a, left), (b, right)):
                    if len(side) > keep:
                        front = coins(bits, len(side) - keep)
                        side[:] = side[front : front + keep]
                instances.append((d, other, a[0], a[-1] + 1, b[0], b[-1] + 1, int(random_next)))
                current, target = [], target_length()
            i += 1
    return instances


@settings(max_examples=300, deadline=None)
@given(
    DOCUMENTS,
    st.integers(8, 24),
    st.integers(0, 5),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.5]),
)
def test_pairs_are_those_of_bert(
    documents: Documents, max_length: int, seed: int, share: float, short: float
) -> None:
    rows = assemble(documents, max_length, seed, random_next=share, short_sequences=short)
    assert spans(rows) == bert_instances(documents, max_length - 3, seed, share, short)


@settings(max_examples=200, deadline=None)
@given(DOCUMENTS, st.integers(8, 24), st.integers(0, 5))
def test_pairs_hold_their_promises(documents: Documents, max_length: int, seed: int) -> None:
    rows = assemble(documents, max_length, seed, random_next=0.5, duplicates=2)
    assert (rows.lengths() <= max_length).all()
    assert (rows.stops > rows.starts).all()
    offsets = bounds([sum(lengths) for lengths in documents])
    for document, (ta, tb, a0, a1, b0, b1, label) in zip(rows.documents.tolist(), spans(rows), strict=True):
        assert ta == document
        assert (label == 1) == (tb != ta)
        assert offsets[ta] <= a0 < a1 <= offsets[ta + 1]
        assert offsets[tb] <= b0 < b1 <= offsets[tb + 1]
        if label == 0:
            assert a1 <= b0


def test_what_a_random_segment_displaces_is_used_again() -> None:
    documents = [[3, 2, 4, 3, 2, 1, 4, 2, 3, 3]] * 3
    rows = assemble(documents, 15, random_next=0.5, short_sequences=0.0)
    used = {t for ta, tb, a0, a1, b0, b1, label in spans(rows) for t in range(a0, a1)}
    used |= {t for ta, tb, a0, a1, b0, b1, label in spans(rows) if not label for t in range(b0, b1)}
    lost = 81 - len(used)
    assert rows.counters["random_pairs"] > 0
    assert lost <= 4 * rows.counters["truncated_rows"]


def test_shares_of_random_and_short_rows() -> None:
    documents = [[5] * 400] * 4
    rows = assemble(documents, 67, random_next=0.3, short_sequences=0.0)
    assert rows.labels is not None
    assert 0.2 < rows.labels.mean() < 0.4
    assert (rows.lengths() >= 60).mean() > 0.7
    rows = assemble(documents, 67, random_next=0.0, short_sequences=1.0)
    assert rows.lengths().mean() < 50
    assert rows.labels is not None
    assert not rows.labels.any()


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("length", [4, 20])
def test_share_of_random_rows_in_short_documents(share: float, length: int) -> None:
    rows = assemble([[length] * 3] * 500, 16, random_next=share)
    labels = [row[-1] for row in spans(rows)]
    assert abs(sum(labels) / len(labels) - share) < 0.05


def test_a_last_sentence_without_a_next_follows_the_one_before() -> None:
    rows = assemble([[20, 20, 20]], 43, random_next=0.0, short_sequences=0.0)
    assert [row[2:] for row in spans(rows)] == [(0, 20, 20, 40, 0), (20, 40, 40, 60, 0)]
    assert not rows.counters["sentences_without_partner"]


def test_random_segments_come_from_every_other_document() -> None:
    rows = assemble([[2] * 200] * 5, 12, random_next=1.0)
    partners = Counter((ta, tb) for ta, tb, *_ in spans(rows))
    assert set(partners) == {(a, b) for a in range(5) for b in range(5) if a != b}
    assert max(partners.values()) < 3 * min(partners.values())


def test_truncation_loses_tokens_at_front_and_back() -> None:
    rows = assemble([[40], [40]] * 30, 12)
    fronts = [a0 % 40 for _, _, a0, *_ in spans(rows)]
    assert min(f for f in fronts if f) > 0 and max(fronts) <= 36
    assert len(set(fronts)) > 5
    assert rows.counters["truncated_rows"] == len(rows)


# C21: one-document corpora and stray blank lines


def test_c21_one_document_never_has_an_adjacent_pair_called_random() -> None:
    rows = assemble([[3, 2, 3, 4, 2, 2, 4]], 10, random_next=1.0)
    assert len(rows) > 0
    assert rows.labels is not None
    assert not rows.labels.any()
    assert rows.counters["pairs_without_other_document"] == len(rows)
    assert rows.counters["random_pairs"] == 0


def test_c21_other_documents_without_tokens_are_no_partners() -> None:
    rows = assemble([[], [3, 2, 3], [0, 0]], 10, random_next=1.0)
    assert rows.documents.tolist() == [1] * len(rows)
    assert rows.labels is not None
    assert not rows.labels.any()
    assert rows.counters["documents_without_tokens"] == 2


def test_c21_documents_of_one_sentence_pair_with_each_other_and_are_counted() -> None:
    rows = assemble([[2], [2], [2]])
    assert [label for *_, label in spans(rows)] == [1, 1, 1]
    assert rows.counters["single_sentence_documents"] == rows.counters["sentences"] == 3


def test_c21_a_lone_sentence_makes_no_pair() -> None:
    rows = assemble([[5]])
    assert len(rows) == 0
    assert rows.counters["sentences_without_partner"] == 1


@pytest.mark.parametrize("segments", ["pair", "single"])
def test_c21_nothing_gives_nothing(segments: str) -> None:
    for documents in ([], [[]], [[0], []]):
        rows = assemble(documents, segments=segments)
        assert len(rows) == 0
        assert rows.starts.shape == (0, 2)


# --- single segments --------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(DOCUMENTS, st.integers(8, 24), st.sampled_from([0.0, 0.5]))
def test_single_segments_lose_no_text(documents: Documents, max_length: int, short: float) -> None:
    rows = assemble(documents, max_length, segments="single", short_sequences=short)
    assert rows.labels is None
    assert (rows.texts[:, 1] == NONE).all()
    assert (rows.lengths() <= max_length).all()
    assert (rows.stops[:, 0] > rows.starts[:, 0]).all()
    every = [t for _, _, a0, a1, *_ in spans(rows) for t in range(a0, a1)]
    assert every == list(range(sum(map(sum, documents))))
    offsets = bounds([sum(d) for d in documents])
    inner = {int(offsets[i] + n) for i, d in enumerate(documents) for n in bounds(d)}
    for (ta, _, a0, a1, *_), document in zip(spans(rows), rows.documents.tolist(), strict=True):
        assert ta == document
        # A row ends within a sentence only if that sentence does not fit into a row.
        if a1 not in inner:
            begin, end = max(n for n in inner if n <= a1), min(n for n in inner if n > a1)
            assert end - max(begin, a0) > max_length - 2


def test_single_segments_are_packed_full() -> None:
    rows = assemble([[3, 3, 3, 3]], 9, segments="single", short_sequences=0.0)
    assert [(a, b) for _, _, a, b, *_ in spans(rows)] == [(0, 6), (6, 12)]
    rows = assemble([[10, 2]], 8, segments="single", short_sequences=0.0)
    assert [(a, b) for _, _, a, b, *_ in spans(rows)] == [(0, 6), (6, 12)]
    assert rows.counters["cut_sentences"] == 1


# --- choices ----------------------------------------------------------------------------------


def test_choices_depend_on_seed_duplicate_and_document_only() -> None:
    documents = [[4, 5, 3, 6, 2, 4, 4, 3]] * 4
    one, same = assemble(documents, seed=1), assemble(documents, seed=1)
    assert spans(one) == spans(same)
    assert spans(one) != spans(assemble(documents, seed=2))
    twice = assemble(documents, seed=1, duplicates=2)
    assert spans(twice)[: len(one)] == spans(one)
    assert spans(twice)[len(one) :] != spans(one)
    # Single segments of a document are the same whatever else is in its block.
    alone = assemble(documents[:1], segments="single", short_sequences=0.7)
    among = assemble(documents, segments="single", short_sequences=0.7)
    assert spans(among)[: len(alone)] == spans(alone)


@settings(deadline=None)
@given(st.integers(0, 200))
def test_c27_pretraining_keeps_clusters_whole_at_both_ends(seed: int) -> None:
    text = "a👍🏽e\u0301❤️🇨🇳" * 6
    tokens = tokens_of([text, text])
    sentences = sentence_bounds(tokens, tokens.offsets, [0, 0], [0, 1, 2])
    cutter = Cutter([text, text], tokens)
    for segments in ("pair", "single"):
        config = PretrainConfig(segments=segments)
        rows = pretrain_rows(config, 14, seed, ["p", "q"], sentences, cutter)
        assert (rows.lengths() <= 14).all()
        for ta, tb, a0, a1, b0, b1, _ in spans(rows):
            for owner, start, stop in ((ta, a0, a1), (tb, b0, b1)):
                if owner == NONE:
                    continue
                kept = text[tokens.starts[start] : tokens.stops[stop - 1]]
                assert kept
                assert not kept.startswith(("🏽", "\u0301", "️"))
                assert kept.count("👍") == kept.count("🏽")
                assert kept.count("e") == kept.count("\u0301")
                assert kept.count("🇨") == kept.count("🇳")
