"""Generation: equal to a search that keeps nothing, to all there is on a small vocabulary, and it learns."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from models import checkpoint
from models.bert_batch import BatchError
from models.generate.decoder import Decoder
from models.generate.search import Generated, Search, generate
from models.unilm import UniLM
from tests.models import generate_literal as literal
from tests.models.generate_literal import batch_of
from tests.models.tiny import tiny

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL = {"pad": PAD, "unk": UNK, "cls": CLS, "sep": SEP, "mask": MASK}


def made(
    seed: int = 0, vocabulary: int = 24, ends: float = 2.0, task: str = "mlm", **options: object
) -> UniLM:
    """A random model in double precision, in which no two scores are near each other; `ends`: its bias to [SEP]."""
    torch.manual_seed(seed)
    model = checkpoint.new(tiny(vocab_size=vocabulary), "unilm", task, **{"types": "by_kind", **options})
    with torch.no_grad():
        model.bert.embeddings.token_type_embeddings.weight.normal_(std=0.5)
        model.cls.predictions.bias.normal_()[SEP] += ends
    return model.eval().double()


def sources_of(rng: random.Random, count: int, vocabulary: int = 24, most: int = 9) -> list[list[int]]:
    return [
        [CLS, *(rng.randrange(5, vocabulary) for _ in range(rng.randint(1, most))), SEP] for _ in range(count)
    ]


def sources_alone(sources: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    return batch_of(sources, [()] * len(sources))


def answers_of(found: Generated, row: int) -> list[tuple[float, tuple[int, ...]]]:
    """As the literal search gives them."""
    return [
        (score, tuple(tokens[: length + ended]))
        for score, tokens, length, ended in zip(
            *(x[row].tolist() for x in (found.score, found.tokens, found.length, found.ended)), strict=True
        )
        if score > -float("inf")
    ]


def check(mine: list, wanted: list, tolerance: float = 1e-9) -> None:
    assert [tokens for _, tokens in mine] == [tokens for _, tokens in wanted]
    torch.testing.assert_close(
        torch.tensor([score for score, _ in mine]),
        torch.tensor([score for score, _ in wanted]),
        atol=tolerance,
        rtol=0,
    )


def some_search(rng: random.Random) -> Search:
    beams = rng.randint(1, 5)
    most = rng.randint(1, 9)
    return Search.of(
        SPECIAL,
        beam_size=beams,
        n_best=rng.randint(1, beams),
        max_target_length=most,
        min_length=rng.randint(0, min(3, most - 1)),
        length_penalty=rng.choice([0.0, 0.6, 1.0, 2.5]),
        no_repeat_ngram_size=rng.randint(0, 3),
        may_repeat=tuple(rng.sample(range(5, 24), rng.choice([0, 4]))),
        unknown=rng.random() < 0.5,
    )


# --- against what keeps nothing ---------------------------------------------------------------


@pytest.mark.parametrize("seed", range(24))
def test_equals_the_search_that_keeps_nothing(seed):
    """Rows of unequal lengths in one batch, each beside a search of its own that runs the model anew each step."""
    rng = random.Random(seed)
    model, sources, how = made(seed, ends=rng.choice([-2, 1, 3])), sources_of(rng, 3), some_search(rng)
    found = generate(model, sources_alone(sources), how)
    for row, source in enumerate(sources):
        check(answers_of(found, row), literal.search(model, source, how))


@pytest.mark.parametrize("seed", range(4))
def test_in_single_precision_scores_are_within_a_hundred_thousandth(seed):
    rng = random.Random(seed)
    model, sources = made(seed).float(), sources_of(rng, 2)
    how = Search.of(SPECIAL, beam_size=3, n_best=2, max_target_length=8, length_penalty=1.0)
    found = generate(model, sources_alone(sources), how)
    for row, source in enumerate(sources):
        check(answers_of(found, row), literal.search(model, source, how), 1e-5)


def test_the_random_searches_try_what_they_should():
    """Answers of different lengths, cut ones, and repeats that were forbidden."""
    lengths, cut, repeated = set(), 0, 0
    for seed in range(24):
        rng = random.Random(seed)
        model, sources, how = made(seed, ends=rng.choice([-2, 1, 3])), sources_of(rng, 3), some_search(rng)
        found = generate(model, sources_alone(sources), how)
        lengths |= set(found.length.flatten().tolist())
        cut += int((~found.ended & found.score.isfinite()).sum())
        free = Search(**{**vars(how), "no_repeat_ngram_size": 0})
        repeated += not torch.equal(generate(model, sources_alone(sources), free).tokens, found.tokens)
    assert lengths >= set(range(8)) and cut > 10 and repeated > 3


def test_a_batch_is_its_rows_one_by_one():
    rng = random.Random(5)
    model, sources = made(5), sources_of(rng, 12, most=20)
    how = Search.of(SPECIAL, beam_size=4, n_best=3, max_target_length=12, length_penalty=0.6)
    together = generate(model, sources_alone(sources), how)
    assert len(set(together.length[:, 0].tolist())) > 2
    for row, source in enumerate(sources):
        check(answers_of(together, row), answers_of(generate(model, sources_alone([source]), how), 0))


def test_one_beam_is_greedy():
    rng = random.Random(6)
    model, sources = made(6, ends=0.0), sources_of(rng, 6)
    found = generate(model, sources_alone(sources), Search(MASK, SEP, max_target_length=12)).lists()
    for source, answers in zip(sources, found, strict=True):
        written: list[int] = []
        while len(written) < 12:
            scores = literal.log_probs(model, [source], [tuple(written)], MASK)[0]
            token = max(range(24), key=scores.__getitem__)
            if token == SEP:
                break
            written.append(token)
        assert answers == [written]


@pytest.mark.parametrize("penalty", [0.0, 1.5])
def test_a_beam_wide_enough_finds_the_best_there_is(penalty):
    """All sequences of three tokens and [SEP], at most four long, scored by themselves."""
    model, source, letters = made(7, vocabulary=8), [CLS, 5, 7, SEP], (5, 6, 7)
    every = [
        (*body, *end)
        for length in range(5)
        for body in itertools.product(letters, repeat=length)
        for end in ([()] if length == 4 else [(SEP,)])
    ]
    prefixes = sorted({tokens[:n] for tokens in every for n in range(len(tokens))})
    scores = dict(
        zip(
            prefixes,
            literal.log_probs(model, [source] * len(prefixes), prefixes, MASK),
            strict=True,
        )
    )
    scored = [(sum(scores[tokens[:n]][token] for n, token in enumerate(tokens)), tokens) for tokens in every]
    wanted = sorted(((s / ((5 + len(t)) / 6) ** penalty, t) for s, t in scored), reverse=True)
    how = Search.of(SPECIAL, beam_size=130, n_best=121, max_target_length=4, length_penalty=penalty)
    found = generate(model, sources_alone([source]), how)
    assert len(every) == 121
    check(answers_of(found, 0), wanted)


# --- the model under it -----------------------------------------------------------------------


def test_a_step_is_the_masked_row_of_training():
    """[MASK] at t of a whole row, gold before it and behind: what the row up to it gives, and what a step gives."""
    rng = random.Random(8)
    model, sources = made(8), sources_of(rng, 3)
    targets = [[rng.randrange(5, 24) for _ in range(6)] for _ in sources]
    whole, real = batch_of(sources, targets), sources_alone(sources)
    first = torch.tensor([len(source) for source in sources])
    with torch.no_grad():
        decoder = Decoder(model, real, real["sequence_id"] > 0, first, MASK, slots=6)
    for t in range(6):
        ids = whole["input_ids"].clone()
        ids[torch.arange(3), first + t] = MASK
        row = model({**whole, "input_ids": ids}).logits["mlm"][torch.arange(3), first + t]
        cut = literal.log_probs(model, sources, [tuple(target[:t]) for target in targets], MASK)
        with torch.no_grad():
            step = decoder.step(torch.tensor([[target[t - 1]] for target in targets]) if t else None)[:, 0]
        torch.testing.assert_close(row.log_softmax(-1), torch.tensor(cut, dtype=torch.float64))
        torch.testing.assert_close(step, row)


def test_what_stands_behind_the_source_counts_for_nothing():
    rng = random.Random(9)
    model, sources = made(9), sources_of(rng, 3)
    how = Search.of(SPECIAL, beam_size=3, max_target_length=8)
    alone = generate(model, sources_alone(sources), how)
    batch = batch_of(sources, [[5, 6, SEP], [7], [8] * 9])
    for more in ({}, {"mlm_labels": batch["input_ids"]}):
        found = generate(model, {**batch, **more}, how)
        assert found.lists() == alone.lists()
        torch.testing.assert_close(found.score, alone.score)


def test_rows_that_ask_nothing_have_no_answer():
    rng = random.Random(10)
    model, sources = made(10), sources_of(rng, 3)
    batch, how = sources_alone([*sources, [0]]), Search.of(SPECIAL, beam_size=2, max_target_length=6)
    batch["sequence_id"][3] = 0
    batch["row_weight"][1] = 0
    found = generate(model, batch, how)
    assert [len(answers) for answers in found.lists()] == [1, 0, 1, 0]
    assert found.tokens.shape == (4, 1, 6)
    for row in (0, 2):
        check(answers_of(found, row), literal.search(model, sources[row], how))
    nothing = generate(model, {**batch, "row_weight": torch.zeros(4)}, how)
    assert nothing.lists() == [[], [], [], []]


def test_dropout_sleeps_and_the_model_is_left_as_it_was():
    model, batch = made(11), sources_alone(sources_of(random.Random(11), 3))
    how = Search.of(SPECIAL, beam_size=2, max_target_length=6)
    wanted = generate(model, batch, how)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    found = generate(model.train(), batch, how)
    assert torch.equal(found.score, wanted.score) and model.training
    assert all(p.grad is None for p in model.parameters()) and not found.score.requires_grad


def test_a_row_stops_when_nothing_can_be_better(monkeypatch):
    model, batch = made(12, ends=9.0), sources_alone(sources_of(random.Random(12), 4))
    steps = []
    step = Decoder.step
    monkeypatch.setattr(Decoder, "step", lambda self, last: steps.append(len(self.first)) or step(self, last))
    found = generate(model, batch, Search.of(SPECIAL, beam_size=3, max_target_length=100, length_penalty=1.0))
    assert found.ended.all() and 1 <= len(steps) < 30 and steps == sorted(steps, reverse=True)


@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
def test_it_does_not_matter_how_the_model_attends(attention):
    batch, how = sources_alone(sources_of(random.Random(13), 3)), Search.of(SPECIAL, max_target_length=6)
    found = [generate(made(13, attention=how_), batch, how).score for how_ in ("sdpa", attention)]
    assert torch.equal(*found)


def test_half_precision_runs_and_scores_are_single():
    model, batch = made(14).bfloat16(), sources_alone(sources_of(random.Random(14), 3))
    found = generate(model, batch, Search.of(SPECIAL, beam_size=2, max_target_length=6))
    assert found.score.dtype == torch.float32 and found.score.isfinite().all()


# --- what it refuses --------------------------------------------------------------------------


def test_numbers_out_of_range_are_refused_by_name():
    for settings, says in (
        ({"beam_size": 0}, "beam_size is 0, expected a whole number from 1 to 1000"),
        ({"beam_size": 1001}, "beam_size is 1001, expected"),
        ({"beam_size": 2, "n_best": 3}, r"n_best is 3, expected a whole number from 1 to 2 \(beam_size\)"),
        ({"max_target_length": 0}, "max_target_length is 0"),
        ({"max_target_length": 5, "min_length": 5}, r"min_length is 5, .*from 0 to 4 \(max_target_length"),
        ({"length_penalty": -1.0}, "length_penalty is -1.0, expected a number from 0 to 10"),
        ({"length_penalty": 1e308}, "length_penalty is 1e.308, expected a number"),
        ({"length_penalty": float("nan")}, "length_penalty is nan"),
        ({"no_repeat_ngram_size": 2.5}, "no_repeat_ngram_size is 2.5"),
        ({"forbidden": (SEP,)}, "token 3 is forbidden, but it is the one that ends"),
    ):
        with pytest.raises(ValueError, match=says):
            Search.of(SPECIAL, **settings)


def test_too_long_a_source_is_refused_before_it_runs():
    """120 positions: 100 of the source leave 20."""
    model, batch = made(), sources_alone([[CLS, 5, SEP], [CLS, *[6] * 98, SEP]])
    generate(model, batch, Search.of(SPECIAL, max_target_length=20))
    with pytest.raises(
        BatchError, match=r"row 1 .*positions 0 to 99, and a target of 21.*max_target_length to 20"
    ):
        generate(model, batch, Search.of(SPECIAL, max_target_length=21))


def test_what_cannot_generate_is_refused():
    batch, how = sources_alone([[CLS, 5, SEP]]), Search.of(SPECIAL)
    for model in (checkpoint.new(tiny(), "bert", "mlm"), checkpoint.new(tiny(), "unilm", "classify")):
        with pytest.raises(ValueError, match="cannot generate: load it as model 'unilm', task 'mlm'"):
            generate(model, batch, how)
    batch["sequence_id"][0, 1:] = 2
    with pytest.raises(BatchError, match="rows are packed"):
        generate(made(), batch, how)


# --- learning ---------------------------------------------------------------------------------


def test_it_learns_to_write_a_source_backwards():
    """Sources of three to five of eight letters; most of a target's tokens masked at a time, its [SEP] among them."""
    rng, letters = random.Random(0), range(5, 13)

    def pairs(count: int) -> tuple[list[list[int]], list[list[int]]]:
        texts = [[rng.choice(letters) for _ in range(rng.randint(3, 5))] for _ in range(count)]
        return [[CLS, *text, SEP] for text in texts], [[*reversed(text), SEP] for text in texts]

    torch.manual_seed(0)
    config = tiny(vocab_size=13, hidden_size=64, intermediate_size=128, initializer_range=0.1)
    model = checkpoint.new(config, "unilm", "mlm", lm="seq2seq", types="by_kind").train()
    steps = 100
    optimizer = torch.optim.AdamW(model.parameters(), 6e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, steps)
    for _ in range(steps):
        batch = batch_of(*pairs(64))
        chosen = (batch["token_type_ids"] == 1) & (torch.rand(batch["input_ids"].shape) < 0.6)
        labels = batch["input_ids"].masked_fill(~chosen, -100)
        output = model(
            {**batch, "input_ids": batch["input_ids"].masked_fill(chosen, MASK), "mlm_labels": labels}
        )
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        schedule.step()
    sources, targets = pairs(100)
    for beams in (1, 3):
        found = generate(
            model, sources_alone(sources), Search.of(SPECIAL, beam_size=beams, max_target_length=8)
        )
        right = sum(answers == [target[:-1]] for answers, target in zip(found.lists(), targets, strict=True))
        assert right > 90, f"{right} of 100 with {beams} beams"


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_predictions_that_are_no_numbers_are_an_error_that_names_the_rows(odd, beams):
    """Of a weight that one row alone reads."""
    model = made()
    batch = sources_alone([[CLS, 7, SEP], [CLS, 8, SEP], [CLS, 9, SEP]])
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[8, 0] = odd
        model.cls.predictions.decoder.weight = torch.nn.Parameter(torch.randn(24, 32, dtype=torch.float64))
    with pytest.raises(BatchError, match=r"predicts for rows \[1\] of the batch is no number"):
        generate(model, batch, Search.of(SPECIAL, max_target_length=3, beam_size=beams))


def test_an_empty_batch_has_no_answers():
    batch = {name: tensor[:0] for name, tensor in sources_alone([[CLS, 7, SEP]]).items()}
    assert generate(made(), batch, Search.of(SPECIAL)).lists() == []


def test_tokens_that_there_are_not_are_refused_by_name():
    batch, model = sources_alone([[CLS, 7, SEP]]), made()
    for search, message in (
        (Search(mask=100, end=SEP), "mask is token 100, and the model has tokens 0 to 23"),
        (Search(mask=MASK, end=24), "end is token 24"),
        (Search.of(SPECIAL, forbidden=(24,)), "forbidden is token 24"),
        (Search.of(SPECIAL, may_repeat=(7, 30)), "may_repeat is token 30"),
    ):
        with pytest.raises(ValueError, match=message):
            generate(model, batch, search)
    for settings, message in (
        ({"forbidden": (-1,)}, "forbidden is token -1, expected an id of 0 or more"),
        ({"may_repeat": (1.5,)}, "may_repeat is token 1.5"),
        ({"max_target_length": True}, "max_target_length is True"),
        ({"length_penalty": "1"}, "length_penalty is '1'"),
        ({"length_penalty": True}, "length_penalty is True"),
    ):
        with pytest.raises(ValueError, match=message):
            Search.of(SPECIAL, **settings)


def test_a_row_of_weight_zero_may_be_as_long_as_it_is():
    """It repeats another, and has no target."""
    model = made()
    long = [CLS, *[7] * (model.config.max_position_embeddings - 2), SEP]
    batch = {**sources_alone([[CLS, 8, SEP], long]), "row_weight": torch.tensor([1.0, 0.0])}
    search = Search.of(SPECIAL, max_target_length=4)
    alone = generate(model, sources_alone([[CLS, 8, SEP]]), search).lists()
    assert generate(model, batch, search).lists() == [*alone, []]


def test_in_half_precision_keys_and_values_are_kept_in_half_and_say_the_same(monkeypatch):
    """Attention of autocast casts what it is given: kept in single, all of it anew in every step."""
    model, kinds = made(7), set()
    batch = sources_alone(sources_of(random.Random(3), 4))
    search = Search(mask=MASK, end=SEP, max_target_length=6, beam_size=2, n_best=2)

    class Watched(Decoder):
        def _run(self, tokens, seen, at):
            kinds.add(self.kept.dtype)
            return super()._run(tokens, seen, at)

    class Single(Decoder):
        def _run(self, tokens, seen, at):
            self.kept = self.kept.float()
            return super()._run(tokens, seen, at)

    def found(decoder, precision):
        monkeypatch.setattr("models.generate.search.Decoder", decoder)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            return vars(generate(model, batch, search))

    found(Watched, "fp32")
    assert kinds == {torch.float64}, "the model's own"
    kinds.clear()
    model.float()
    mine, single = found(Watched, "bf16"), found(Single, "bf16")
    assert kinds == {torch.bfloat16}
    assert all(torch.equal(mine[name], single[name]) for name in mine)


def test_a_step_of_search_asks_once():
    """Whether something went wrong and whether a row has ended leave a GPU together."""
    model, asked = made(11, ends=-20.0), []  # no row ends before the limit
    batch, how = (
        sources_alone(sources_of(random.Random(4), 3)),
        Search.of(SPECIAL, beam_size=2, max_target_length=6),
    )

    class Waits(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if any(part in str(func) for part in ("_local_scalar_dense", "nonzero")):
                asked.append(str(func))
            return func(*args, **(kwargs or {}))

    plain = torch.Tensor.tolist
    with pytest.MonkeyPatch.context() as patch, Waits():
        patch.setattr(torch.Tensor, "tolist", lambda self: asked.append("tolist") or plain(self))
        patch.setattr(UniLM, "check", lambda self, batch: None)
        generate(model, batch, how)
        before = len(asked)
        asked.clear()
        generate(model, batch, replace(how, max_target_length=9))
    assert len(asked) - before == 3, asked
