"""Each mask against loops written from its paper, in all its forms: dense, FlexAttention, transformers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask, create_mask, flex_attention
from transformers import BertConfig, BertModel
from transformers.masking_utils import create_bidirectional_mask

from models.masks import LM_KINDS, Mask, same_sequence, syntax, unilm, visible
from tests.models import masks_literal as literal
from tests.rows import GROUPS, Row, make_row

# FlexAttention runs as plain torch: what is compared are masks, and compiling takes a minute.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small tensors: threads would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


TREE: dict[str, tuple[Mask, Callable[[Row], literal.Seen]]] = {"visible": (visible, literal.visible)}
FINE: dict[str, tuple[Mask, Callable[[Row], literal.Seen]]] = {
    "ancestors": (syntax(), literal.ancestors),
    "descendants": (syntax("descendants"), literal.descendants),
    **{kind: (unilm(kind), partial(literal.unilm, kind)) for kind in LM_KINDS},
}
ALL = [*TREE, *FINE]


def packs_of(rng: random.Random, count: int, most_words: int = 5) -> list[list[Row]]:
    """Rows of the batch, each of one to three shard rows; any task whose rows are one sequence."""
    tasks = ("pretrain", "classify", "seq2seq", "tag")
    return [
        [
            make_row(rng, rng.choice(tasks), GROUPS, "a#0", most_words=most_words)
            for _ in range(rng.choice([1, 1, 2, 3]))
        ]
        for _ in range(count)
    ]


def batch_of(rng: random.Random, name: str, packs: list[list[Row]]) -> literal.Batch:
    if name in TREE:
        return literal.lay(rng, [[literal.tree_tokens(row) for row in pack] for pack in packs])
    special = rng.choice(["none", "empty", "own"])
    return literal.lay(rng, [[literal.fine_tokens(row, special) for row in pack] for pack in packs])


def expected(name: str, packs: list[list[Row]], width: int) -> np.ndarray:
    loop = (TREE | FINE)[name][1]
    return literal.matrix([[loop(row) for row in pack] for pack in packs], width)


def by_flex(mask: Mask, batch: literal.Batch) -> torch.Tensor:
    rows, width = batch["sequence_id"].shape
    return create_mask(mask.mask_mod(batch), rows, 1, width, width, device="cpu")


def settled(got: torch.Tensor, batch: literal.Batch) -> np.ndarray:
    """bool[B, T, T] as the loops say it: padding, which sees itself and nothing real, alone on the diagonal."""
    assert got.dtype == torch.bool and got.shape[1] == 1
    seen, padding = got[:, 0].numpy().copy(), (batch["sequence_id"] == 0).numpy()
    apart = padding[:, :, None] != padding[:, None, :]
    assert not seen[apart].any() and seen.diagonal(axis1=1, axis2=2).all()
    seen[padding] = np.eye(padding.shape[1], dtype=bool)[np.nonzero(padding)[1]]
    return seen


Case = tuple[str, Mask, literal.Batch, np.ndarray]


def cases(seed: int, rows: int, names: list[str], most_words: int = 5) -> Iterator[Case]:
    """(name, mask, batch, what the loop says), of the same rows for each mask."""
    rng = random.Random(seed)
    packs = packs_of(rng, rows, most_words)
    for name in names:
        batch = batch_of(rng, name, packs)
        mask = same_sequence & (TREE | FINE)[name][0]
        yield name, mask, batch, expected(name, packs, batch["sequence_id"].shape[1])


# --- the papers -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_thousands_of_rows_by_loop_dense_and_flex(name: str) -> None:
    """About 1,000 rows a mask, packed into 600: the matrix, and the attention that comes out of it."""
    for seed in range(10):
        ((_, mask, batch, want),) = cases(seed, 60, [name], most_words=3)
        dense = mask.dense(batch)
        np.testing.assert_array_equal(settled(dense, batch), want)
        assert torch.equal(by_flex(mask, batch), dense)

        rows, width = want.shape[:2]
        generator = torch.Generator().manual_seed(seed)
        q, k, v = torch.randn(3, rows, 1, width, 16, generator=generator).unbind()
        real = (batch["sequence_id"] > 0).numpy()
        out = literal.attend(want, *(x[:, 0].double().numpy() for x in (q, k, v)))
        block = create_block_mask(mask.mask_mod(batch), rows, None, width, width, device="cpu")
        flex = flex_attention(q, k, v, block_mask=block)
        sdpa = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=dense)
        torch.testing.assert_close(flex, sdpa, atol=2e-6, rtol=0)  # of padding, too
        np.testing.assert_allclose(sdpa[:, 0].numpy()[real], out[real], atol=2e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_any_rows(seed: int, rows: int) -> None:
    for name, mask, batch, want in cases(seed, rows, ALL):
        assert (settled(mask.dense(batch), batch) == want).all(), name


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_each_row_has_its_own_kind(seed: int, kinds: list[int]) -> None:
    rng = random.Random(seed)
    packs = packs_of(rng, len(kinds))
    batch = batch_of(rng, "seq2seq", packs) | {"lm_kind": torch.tensor(kinds)}
    mask = same_sequence & unilm()
    width = batch["sequence_id"].shape[1]
    want = np.concatenate(
        [expected(LM_KINDS[kind], [pack], width) for kind, pack in zip(kinds, packs, strict=True)]
    )
    assert (settled(mask.dense(batch), batch) == want).all()
    assert (settled(by_flex(mask, batch), batch) == want).all()


def test_the_example_of_kbert() -> None:
    """Figures 2 and 3: Apple sees Cook and not Beijing; CEO not China; [CLS] no branch."""
    #         [CLS] Tim Cook CEO Apple is visiting Beijing capital China is_a City now
    branch = [0, 0, 0, 1, 1, 0, 0, 0, 2, 2, 3, 3, 0]
    mention = [-1, 0, 0, 0, 0, -1, -1, 1, 1, 1, 1, 1, -1]
    batch = {"branch": torch.tensor([branch]), "mention": torch.tensor([mention])}
    batch["parent"] = torch.zeros_like(batch["branch"])
    seen = [set(np.flatnonzero(row).tolist()) for row in visible.dense(batch)[0, 0].numpy()]
    trunk = {0, 1, 2, 5, 6, 7, 12}
    assert seen[0] == seen[5] == trunk
    assert seen[2] == trunk | {3, 4}
    assert seen[4] == {1, 2, 3, 4}
    assert seen[9] == {7, 8, 9}


def test_words_of_other_sentences_and_special_tokens_are_hidden() -> None:
    rng = random.Random(5)
    several = 0
    for _ in range(50):
        row = make_row(rng, "pretrain", GROUPS, "a#0", pair=True)
        batch = batch_of(rng, "ancestors", [[row]])
        sentence = np.array([-1 if w < 0 else row["sentence_index"][w] for w in row["word_index"]])
        several += sentence.max() > 0
        apart = (sentence[:, None] != sentence[None, :]) | (sentence[:, None] < 0)
        np.fill_diagonal(apart, False)
        for direction in ("ancestors", "descendants"):
            seen = syntax(direction).dense(batch)[0, 0].numpy()[: len(apart), : len(apart)]
            assert not seen[apart].any()
    assert several > 40


@pytest.mark.parametrize("most", [126, 127, 128, 129, 32766, 32768, 40_000])
def test_numbers_of_any_size(most: int) -> None:
    """The dense form compares in the smallest type that has all numbers and their negatives."""
    branch = torch.tensor([[0, most, most + 1, most + 2, 0, 3]], dtype=torch.int32)
    mention = torch.tensor([[most, most, most, most - 1, -1, most - 2]], dtype=torch.int32)
    parent = torch.tensor([[0, 0, most, 0, 0, 0]], dtype=torch.int32)
    batch = {"branch": branch, "mention": mention, "parent": parent, "sequence_id": branch * 0 + most}
    want = torch.eye(6, dtype=torch.bool)
    for i, j in ((0, 1), (0, 2), (0, 4), (1, 2)):
        want[i, j] = want[j, i] = True
    mask = same_sequence & visible
    assert torch.equal(mask.dense(batch)[0, 0], want)
    assert torch.equal(by_flex(mask, batch)[0, 0], want)


@pytest.mark.parametrize("width", [127, 128, 129, 600])
@pytest.mark.parametrize("kind", LM_KINDS)
def test_long_rows(kind: str, width: int) -> None:
    """As many tokens as a byte has numbers, and more pairs than are compared at a time."""
    source = width // 3
    batch = {"token_type_ids": (torch.arange(width) >= source).long()[None].repeat(3, 1)}
    i, j = np.indices((width, width))
    want = {
        "bidirectional": i == i,
        "left_to_right": j <= i,
        "right_to_left": j >= i,
        "seq2seq": (j < source) | ((i >= source) & (j <= i)),
    }[kind]
    assert (unilm(kind).dense(batch).numpy() == want).all()


# --- algebra ----------------------------------------------------------------------------------


def test_masks_compose_as_sets() -> None:
    rng = random.Random(3)
    batch = batch_of(rng, "ancestors", packs_of(rng, 20))
    one, two = syntax(), unilm("left_to_right")
    a, b = one.dense(batch), two.dense(batch)
    made = {one & two: a & b, one | two: a | b, ~one: ~a, ~(one & ~two) | one: ~(a & ~b) | a}
    for mask, want in made.items():
        assert torch.equal(mask.dense(batch), want)
        assert torch.equal(by_flex(mask, batch), want)
    assert (one & two & one).columns == ("dfs_in", "dfs_out", "token_type_ids")


def test_queries_and_prefix() -> None:
    rng = random.Random(4)
    batch = batch_of(rng, "seq2seq", packs_of(rng, 5))
    mask = same_sequence & unilm("seq2seq")
    whole = mask.dense(batch)
    for queries in (slice(-2, None), slice(3, 4), slice(0, 0)):
        assert torch.equal(mask.dense(batch, queries=queries), whole[:, :, queries])
    coarse = {f"coarse_{name}": column for name, column in batch.items()}
    assert torch.equal(mask.dense(coarse, prefix="coarse_"), whole)
    with pytest.raises(KeyError, match="reads sequence_id, token_type_ids; the batch has coarse_dfs_in"):
        mask.dense(coarse)


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="expected 'ancestors' or 'descendants'"):
        syntax("children")
    with pytest.raises(ValueError, match="expected one of bidirectional, left_to_right"):
        unilm("causal")


# --- transformers -----------------------------------------------------------------------------


def bert(attention: str) -> BertModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48}
    config = BertConfig(vocab_size=100, max_position_embeddings=256, attn_implementation=attention, **sizes)
    return BertModel(config, add_pooling_layer=False).eval()


def run(mask: Mask, batch: literal.Batch, ids: torch.Tensor, attention: str) -> torch.Tensor:
    model = bert(attention)
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        made = mask.attention(batch, model.config)
        return model(input_ids=ids, attention_mask=made).last_hidden_state


def ids_of(batch: literal.Batch) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(5, 100, batch["sequence_id"].shape, generator=generator)


ATTENTIONS = ("eager", "sdpa", "flex_attention")


@pytest.mark.parametrize("name", ALL)
def test_every_attention_gives_the_same(name: str) -> None:
    ((_, mask, batch, _),) = cases(7, 6, [name])
    assert (batch["sequence_id"] == 0).any() and (batch["sequence_id"] > 1).any()
    ids = ids_of(batch)
    outs = [run(mask, batch, ids, attention) for attention in ATTENTIONS]
    assert torch.isfinite(outs[0]).all()  # padding, too
    for out in outs[1:]:
        torch.testing.assert_close(out, outs[0], atol=2e-6, rtol=0)
    blind = run(same_sequence, batch, ids, "sdpa")
    assert name == "bidirectional" or not torch.allclose(blind, outs[0], atol=1e-3)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_same_as_by_transformers(attention: str) -> None:
    config = bert(attention).config
    for dtype in (torch.float32, torch.bfloat16):
        for _, mask, batch, _ in cases(8, 4, ["visible", "ancestors", "seq2seq"]):
            embeddings = torch.zeros((*batch["sequence_id"].shape, 8), dtype=dtype)
            with torch.compiler.set_stance("force_eager"):
                theirs = create_bidirectional_mask(
                    config, embeddings, None, and_mask_function=mask.mask_mod(batch)
                )
                ours = mask.attention(batch, config, dtype=dtype)
            if attention == "flex_attention":
                assert torch.equal(ours.to_dense(), theirs.to_dense())
            else:
                assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)


def test_attention_that_takes_no_mask_of_pairs() -> None:
    config = bert("sdpa").config
    config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match=r"'flash_attention_2', which takes no mask over pairs of tokens"):
        same_sequence.attention({"sequence_id": torch.ones(1, 4)}, config)


def test_a_row_of_padding_is_finite_everywhere() -> None:
    batch = {name: torch.zeros(2, 8, dtype=torch.int32) for name in ("sequence_id", "dfs_in", "dfs_out")}
    batch["sequence_id"][0, :5] = 1
    batch["dfs_in"][0, 1:4], batch["dfs_out"][0, 1:4] = torch.tensor([0, 1, 2]), torch.tensor([3, 2, 3])
    ids = ids_of(batch)
    outs = [run(same_sequence & syntax(), batch, ids, attention) for attention in ATTENTIONS]
    for out in outs:
        assert torch.isfinite(out).all()
        torch.testing.assert_close(out, outs[0], atol=2e-6, rtol=0)


# --- no leak ----------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("kind", LM_KINDS[1:])
def test_nothing_leaks_through_two_layers(kind: str, attention: str) -> None:
    """Another token in one place changes nothing where that place may not be seen, and something where it may."""
    rng = random.Random(9)
    packs = packs_of(rng, 3)
    batch = batch_of(rng, kind, packs)
    mask = same_sequence & unilm(kind)
    seen = torch.from_numpy(expected(kind, packs, batch["sequence_id"].shape[1]))
    ids = ids_of(batch)
    before = run(mask, batch, ids, attention)
    for place in range(1, ids.shape[1], 5):
        changed = ids.clone()
        changed[:, place] = 5 + (ids[:, place] + 11) % 95
        moved = (run(mask, batch, changed, attention) - before).abs().amax(-1)
        moved[batch["sequence_id"] == 0] = 0  # of padding only that it changes nothing else
        assert moved[~seen[:, :, place]].max() < 1e-6
        real = batch["sequence_id"][:, place] > 0
        assert (moved[real][seen[real][:, :, place]] > 1e-5).all()


@pytest.mark.parametrize("name", ALL)
def test_gradients_reach_what_is_seen_and_nothing_else(name: str) -> None:
    for _, mask, batch, want in cases(10, 8, [name]):
        rows, width = want.shape[:2]
        generator = torch.Generator().manual_seed(2)
        q, k, v = torch.randn(3, rows, 1, width, 4, generator=generator).double().unbind()
        v.requires_grad_()
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask.dense(batch))
        for query in range(0, width, 3):
            (gradient,) = torch.autograd.grad(out[:, 0, query].sum(), v, retain_graph=True)
            reached = (gradient[:, 0].abs().amax(-1) > 0).numpy()
            real = (batch["sequence_id"][:, query] > 0).numpy()
            assert (reached[real] == want[real, query]).all()
