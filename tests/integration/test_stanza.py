"""A real Stanza pipeline under `treegraft preprocess`: models trained here, raw files in, verified shards out.

English and Chinese are real where real treebanks are there: models by `make stanza`, and texts that they have not seen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
import yaml
from typer.testing import CliRunner

from corpora.conllu import ConlluSentence, read_conllu
from corpora.manifest import read_manifest
from corpora.verify import verify
from pipelines.annotate.stage import Annotate
from pipelines.annotate.toolbox import _LOADED
from pipelines.cli import app
from pipelines.config import Config, ConfigError
from tests import treebanks
from tests.integration.running import preprocess

COMMAND = [sys.executable, "-c", "from pipelines.cli import main; main()"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A text file of each language, a document a line or more, and a vocabulary of characters."""
    characters: set[str] = set()
    for language, joiner in (("en", " "), ("fr", " "), ("zh", "")):
        sentences = [s.text for s in unseen(tmp_path, language)]
        documents = [joiner.join(sentences[i : i + 4]) for i in range(0, 24, 4)]
        (tmp_path / f"{language}.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
        characters.update(*documents)
    letters = sorted(c for c in characters | {c.lower() for c in characters} if not c.isspace())
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return tmp_path


def unseen(folder: Path, language: str) -> list[ConlluSentence]:
    return list(read_conllu(treebanks.held_out(folder, language, 24)))


def config(language: str, models: Path, **annotate: Any) -> dict[str, Any]:
    return {
        "task": "pretrain",
        "language": language,
        "input": {"format": "text", "files": f"{language}.txt"},
        "annotate": {"parser": f"stanza:{models}", **annotate},
        "encode": {
            "tokenizer": "vocab.txt",
            "lowercase": False,
            "max_length": 256,
            "columns": ["syntax"],
            "pretrain": {"segments": "single"},
        },
        "run": {"block_bytes": 1024},
    }


def annotated(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted((folder / "annotated").glob("*.arrow")):
        rows += pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pylist()
    return rows


def words(row: dict[str, Any]) -> list[str]:
    return [row["text"][a:b] for a, b in zip(row["word_starts"], row["word_stops"], strict=True)]


@pytest.mark.parametrize(
    ("language", "annotate", "segmenter"),
    [
        ("en", {}, "spacy"),
        ("en", {"segmenter": "parser", "sentences": "parser"}, "stanza_en_treegraft"),
        ("zh", {}, "jieba"),
        ("zh", {"segmenter": "parser", "sentences": "parser"}, "stanza_zh-hans_treegraft"),
        ("fr", {"segmenter": "parser"}, "stanza_fr_treegraft"),
        ("fr", {"segmenter": "parser", "sentences": "parser", "batch_words": 40}, "stanza_fr_treegraft"),
    ],
)
def test_raw_text_to_verified_shards(
    corpus: Path, stanza_models: Path, language: str, annotate: dict[str, str], segmenter: str
) -> None:
    out = preprocess(corpus, "run", config(language, stanza_models, **annotate))
    report = verify(str(out))
    assert report.ok, report.render()
    rows = annotated(out)
    gold = unseen(corpus, language)
    assert len(rows) == 6
    same = total = 0
    for number, row in enumerate(rows):
        expected: list[tuple[str, ...]] = []
        for s in gold[4 * number : 4 * number + 4]:
            spans = sorted(set(zip(s.starts, s.stops, strict=True)))
            expected.append(tuple(s.text[a:b] for a, b in spans))
        found = words(row)
        if language == "fr":  # a grammar of a page
            assert found == [word for sentence in expected for word in sentence]
            assert len(row["sentence_starts"]) == 4
        assert "".join("".join(found).split()) == "".join(row["text"].split())
        assert row["word_deprels"].count("root") == len(row["sentence_starts"])
        at = np.arange(len(found))
        assert ((np.array(row["word_heads"]) == at) == (np.array(row["word_deprels"]) == "root")).all()
        same += sum((Counter(found) & Counter(chain.from_iterable(expected))).values())
        total += len(found)
    assert same > 0.5 * total
    identity = read_manifest(str(out / "annotated")).identities
    assert identity["parser"]["name"] == f"stanza_{'zh-hans' if language == 'zh' else language}_treegraft"
    assert identity["segmenter"]["name"] == segmenter


def test_the_command_gives_the_same_bytes_on_two_workers(corpus: Path, stanza_models: Path) -> None:
    pytest.importorskip("stanza")
    body = config("fr", stanza_models, segmenter="parser")
    here = preprocess(corpus, "here", body)
    (corpus / "there.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "preprocess", "there.yaml", "--out", "there", "--workers", "2"],
        cwd=corpus,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "every rule holds" in done.stderr
    found = [
        {p.name: p.read_bytes() for p in (f / "annotated").glob("*.arrow")} for f in (here, corpus / "there")
    ]
    assert len(found[0]) > 1 and found[0] == found[1]


@pytest.mark.parametrize("processor", ["tokenize", "depparse"])
def test_a_dry_run_loads_the_models(corpus: Path, stanza_models: Path, processor: str) -> None:
    shutil.copytree(stanza_models, corpus / "models")
    body = config("fr", corpus / "models", segmenter="parser")
    (corpus / "c.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    arguments = ["preprocess", str(corpus / "c.yaml"), "--out", str(corpus / "out"), "--dry-run"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    copy = corpus / "models" / f"fr/{processor}/treegraft.pt"
    copy.write_bytes(b"no weights")
    _LOADED.clear()  # as in another process
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, ConfigError) and f"{copy} holds more than weights, or is damaged" in str(error)
    assert not (corpus / "out").exists()


def test_settings_that_stanza_cannot_meet_are_refused(stanza_models: Path, tmp_path: Path) -> None:
    def refused(language: str, **annotate: Any) -> str:
        body = config(language, stanza_models, **annotate)
        with pytest.raises(ConfigError) as error:
            Annotate(Config.model_validate(body), str(tmp_path / "c.yaml"))
        return str(error.value)

    assert "set annotate.segmenter to 'parser' too" in refused("zh", sentences="parser")
    assert "no Stanza models of 'de'" in refused("de")
    assert "make stanza" in refused("en", parser="stanza:nowhere")
