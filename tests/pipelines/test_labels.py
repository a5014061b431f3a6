"""Labels as numbers: what does not fit is an error, never another label."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from corpora.manifest import Manifest, SplitRecord
from pipelines.config import ConfigError
from pipelines.encode.labels import Labels
from pipelines.flow import label_names
from tests.pipelines.annotated import config_of


def table(label: str) -> pa.Table:
    return pa.table({"doc_id": ["a"], "tag_labels": pa.array([[label]], pa.list_(pa.string()))})


def test_token_labels_are_never_more_than_int16_can_number() -> None:
    names = [f"L{i}" for i in range(32_767)]
    assert Labels(names, per_token=True).of_units(table("L32766"), "train", np.array([1])).tolist() == [
        32_766
    ]
    with pytest.raises(ConfigError, match=r"32,768 different labels.*input\.label"):
        Labels([*names, "one more"], per_token=True)
    assert len(Labels([*names, "one more"]).names) == 32_768  # labels of whole texts are int32


@pytest.mark.parametrize(
    ("task", "want"), [("span", []), ("choice", []), ("seq2seq", []), ("classify", ["0", "1"])]
)
def test_only_classes_and_tags_have_label_names(task: str, want: list[str]) -> None:
    """The label of a multiple choice is an index that every document counts for itself."""
    split = SplitRecord(shards=[], rows=0, rejects={}, counters={}, sets={"labels": ["1", "0"]})
    annotated = Manifest(stage="annotate", task=task, config_fingerprint="a", splits={"train": split})
    assert label_names(config_of(task), annotated) == want
