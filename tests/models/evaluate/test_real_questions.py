"""Gold answers of real questions, through windows and back: every one is found that a span can be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models import checkpoint
from models.evaluate.evaluation import columns_of, evaluate
from models.evaluate.options import Options
from models.stream.open import open_split
from tests.integration.running import preprocess
from tests.models.evaluate import literal
from tests.models.evaluate.oracle import Oracle
from tests.models.tiny import tiny


@pytest.mark.parametrize(
    ("source", "language", "script"),
    [
        ("sgnet/squad_sample.json", "en", "squad"),
        pytest.param("cmrc/cmrc2018_trial.json", "zh", "cmrc", marks=pytest.mark.heavy),
    ],
)
def test_gold_spans_of_windows_give_the_gold_answers(
    real_data: Path, tmp_path: Path, source: str, language: str, script: str
) -> None:
    config = {
        "task": "span",
        "language": language,
        "input": {"format": "squad", "files": {"dev": str(real_data / source)}},
        "encode": {
            "tokenizer": str(real_data / "bert/bert-base-chinese-vocab.txt"),
            "max_length": 256,
            "columns": [],
            "span": {"max_question": 64, "doc_stride": 96},
        },
    }
    folder = preprocess(tmp_path, "questions", config)
    metadata = open_split(str(folder), "dev", ("id",)).metadata
    model = checkpoint.new(
        tiny(vocab_size=metadata["vocab_size"], max_position_embeddings=256), "bert", "span"
    )
    split = open_split(str(folder), "dev", columns_of(model))
    result = evaluate(Oracle(model), split, options=Options(max_answer_length=256))

    asked = {
        qa["id"]: [answer["text"] for answer in qa["answers"]]
        for article in json.loads((real_data / source).read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    }
    rows = open_split(str(folder), "dev", ("id", "answer_start")).take(np.arange(split.rows))
    starts = rows.scalars["answer_start"]
    names = [identity.rpartition("#")[0] for identity in rows.texts["id"].to_pylist()]
    found = {name for name, start in zip(names, starts, strict=True) if start > 0}
    predicted = {row["id"]: row["predicted"] for row in result.predictions.to_pylist()}
    assert len(predicted) == len(set(names))
    lost = {name for name in predicted if name not in found and asked[name]}
    compare = getattr(literal, script)
    scores = [compare(asked[name], answer) for name, answer in predicted.items()]
    assert result.scores["exact"] == pytest.approx(np.mean([exact for exact, _ in scores]))
    assert result.scores["f1"] == pytest.approx(np.mean([f1 for _, f1 in scores]))
    wrong = {name for (exact, _), name in zip(scores, predicted, strict=True) if not exact}
    print(
        f"\n{source}: {len(asked):,} questions, {len(predicted):,} in rows, {split.rows:,} windows; exact "
        f"{result.scores['exact']:.4f}, f1 {result.scores['f1']:.4f}; no window has the whole answer of "
        f"{len(lost)}; other wrong ones {len(wrong - lost)}"
    )
    assert wrong <= lost, [(asked[name], predicted[name]) for name in list(wrong - lost)[:5]]
    assert len(predicted) >= 0.99 * len(asked) and result.scores["exact"] > 0.99
