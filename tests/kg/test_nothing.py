"""Files without a triple: which languages there are, and what helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kg import BuildOptions, GraphError, ReadOptions, compile_graph


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {},
            "nodes without a label 3.; the languages of the files are de, en; name the property .* `labels`",
        ),
        (
            {"language": "de"},
            r"nodes without a label 2, in another language 1\); the .* are de, en; give another `language`, name",
        ),
        ({"language": "fr"}, "in another language 2.*are de, en; give another `language`$"),
    ],
)
def test_nodes_without_labels_say_which_languages_there_are(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    source = tmp_path / "a.nt"
    lines = ('<urn:p> <urn:l> "Apfel"@de', '<urn:a> <urn:l> "pear"@en', "<urn:a> <urn:p> <urn:b>")
    source.write_text("".join(f"{line} .\n" for line in lines), encoding="utf-8")
    with pytest.raises(GraphError, match=words):
        compile_graph([str(source)], tmp_path / "kg", options=BuildOptions(ReadOptions(**options)))
