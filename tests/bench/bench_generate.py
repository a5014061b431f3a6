"""What generation takes: with keys and values kept, without, and beside `generate` of transformers.

Eight sources of 64 tokens, targets of 32, all to the limit, four beams; BERT of 4 layers, 256 wide, with the vocabulary of
bert-base-chinese; one thread, CPU time. UniLM reads two positions a step where a causal decoder reads one, so the bare
limit is about half of what such a decoder of the same size does.

Measured on one of two shared, busy cores: with one beam 194 tokens of answers a CPU second, 2.7 times what keeping
nothing gives, 0.85 times a causal decoder of transformers and 1.16 times its encoder-decoder; with four beams 125, and
6.5, 1.83 and 1.48 times (transformers copies the source's keys for each beam, and all keys at each step; here none are).
Keys of other beams, which a mask drops, make a step of four beams 1.4 times as long behind 112 tokens a beam, of eight
beams 1.2 times.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertLMHeadModel, EncoderDecoderConfig, EncoderDecoderModel

from models import checkpoint
from models.generate import search
from models.generate.decoder import Decoder
from models.generate.search import Search, generate
from models.masks import LM_KINDS
from models.unilm import UniLM

pytestmark = pytest.mark.bench

ROWS, SOURCE, TARGET, VOCAB = 8, 64, 32, 21_128
PAD, UNK, CLS, SEP, MASK = 0, 100, 101, 102, 103
ROUNDS = 3


class Anew:
    """A decoder that keeps nothing: each step runs the whole of every beam, source and all."""

    def __init__(
        self, model: UniLM, source: dict[str, Tensor], real: Tensor, first: Tensor, mask: int, slots: int
    ):
        self.model, self.mask = model, mask
        self.written = source["input_ids"][:, None]
        self.source = source["input_ids"].shape[1]

    def step(self, last: Tensor | None) -> Tensor:
        if last is not None:
            self.written = torch.cat([self.written, last[..., None]], -1)
        rows, beams, length = self.written.shape
        ids = torch.cat([self.written, self.written.new_full((rows, beams, 1), self.mask)], -1).flatten(0, 1)
        places = torch.arange(length + 1).expand_as(ids)
        batch = {
            "input_ids": ids,
            "token_type_ids": (places >= self.source).long(),
            "position_ids": places,
            "sequence_id": torch.ones_like(ids),
            "lm_kind": torch.full((len(ids),), LM_KINDS.index("seq2seq")),
        }
        hidden, _ = self.model.encode(batch)
        return self.model.cls.predictions(hidden[:, -1]).unflatten(0, (rows, beams))

    def follow(self, parent: Tensor) -> None:
        self.written = self.written.gather(1, parent[..., None].expand(-1, -1, self.written.shape[-1]))

    def select(self, rows: Tensor) -> None:
        self.written = self.written[rows]


def config(**more: Any) -> BertConfig:
    return BertConfig(
        vocab_size=VOCAB,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        pad_token_id=PAD,
        bos_token_id=CLS,
        eos_token_id=SEP,
        **more,
    )


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def rates(**ways: Callable[[], Any]) -> dict[str, float]:
    """Tokens of answers a CPU second of each way, taken in turns: medians."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.process_time()
            way()
            took[name].append(time.process_time() - start)
    return {name: ROWS * TARGET / statistics.median(times) for name, times in took.items()}


@pytest.mark.parametrize("beams", [1, 4])
def test_tokens_a_second(beams: int, one_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = checkpoint.new(config(), "unilm", "mlm").eval()
    ids = torch.randint(1000, VOCAB, (ROWS, SOURCE))
    ids[:, 0], ids[:, -1] = CLS, SEP
    ones = torch.ones_like(ids)
    batch = {
        "input_ids": ids,
        "token_type_ids": 0 * ids,
        "position_ids": torch.arange(SOURCE).expand_as(ids),
        "sequence_id": ones,
    }
    how = Search(MASK, SEP, beam_size=beams, max_target_length=TARGET, min_length=TARGET - 1)

    def anew() -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(search, "Decoder", Anew)
            return generate(model, batch, how)

    both = [generate(model, batch, how), anew()]
    same = (both[0].tokens == both[1].tokens).all(-1).float().mean()
    torch.testing.assert_close(both[0].score, both[1].score, atol=1e-3, rtol=0)

    causal = BertLMHeadModel(config(is_decoder=True)).eval()
    pair = EncoderDecoderConfig.from_encoder_decoder_configs(
        config(), config(is_decoder=True, add_cross_attention=True)
    )
    crossed = EncoderDecoderModel(pair).eval()
    asked: dict[str, Any] = {
        "num_beams": beams,
        "max_new_tokens": TARGET,
        "min_new_tokens": TARGET,
        "do_sample": False,
        "pad_token_id": PAD,
        "eos_token_id": SEP,
        "bos_token_id": CLS,
        "decoder_start_token_id": CLS,
    }

    def theirs(other: Any) -> Any:
        with torch.no_grad():
            return other.generate(input_ids=ids, attention_mask=ones, **asked)

    assert theirs(causal).shape == (ROWS, SOURCE + TARGET)
    got = rates(
        kept=lambda: generate(model, batch, how),
        anew=anew,
        causal=lambda: theirs(causal),
        crossed=lambda: theirs(crossed),
    )
    print(
        f"\n{beams} beams, tokens of answers a CPU second: "
        + ", ".join(f"{name} {rate:,.0f}" for name, rate in got.items())
        + f"; kept / anew {got['kept'] / got['anew']:.1f}, kept / causal decoder of transformers "
        f"{got['kept'] / got['causal']:.2f}, / its encoder-decoder {got['kept'] / got['crossed']:.2f}"
        f" (the same answers as anew: {same:.0%})"
    )


def test_share_of_attention_over_other_beams(one_thread: None) -> None:
    """What the keys of other beams cost, that a mask drops: steps behind a full cache beside steps of one beam."""
    torch.manual_seed(0)
    model = checkpoint.new(config(), "unilm", "mlm").eval()
    source = {
        "input_ids": torch.randint(1000, VOCAB, (ROWS, SOURCE)),
        "token_type_ids": torch.zeros(ROWS, SOURCE, dtype=torch.int64),
        "position_ids": torch.arange(SOURCE).expand(ROWS, -1),
    }
    real, first = torch.ones(ROWS, SOURCE, dtype=torch.bool), torch.full((ROWS,), SOURCE)
    for beams in (1, 4, 8):
        with torch.no_grad():
            decoder = Decoder(model, source, real, first, MASK, beams * 128)
            decoder.step(None)
            decoder.follow(torch.zeros(ROWS, beams, dtype=torch.int64))
            last, steps = torch.full((ROWS, beams), 1000), []
            for _ in range(127):
                start = time.process_time()
                decoder.step(last)
                steps.append(1e3 * (time.process_time() - start))
        early, late = statistics.median(steps[:16]), statistics.median(steps[-16:])
        print(
            f"\n{beams} beams: CPU ms a step {early:.1f} at the start, {late:.1f} behind {beams * 112} written tokens"
        )
