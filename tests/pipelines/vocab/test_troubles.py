"""What a user may get wrong: lexicons that give nothing, files of their own in the folder, numbers beyond use."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pipelines.config import load_config
from pipelines.engine import RunError
from pipelines.section import ConfigError
from pipelines.vocab import steps
from tests.pipelines.dedup.running import options
from tests.pipelines.vocab.running import contents, found_lexicon, make, report, settings, write_corpus


def test_a_search_that_found_no_phrase_is_no_lexicon(tmp_path: Path) -> None:
    write_corpus(tmp_path, documents=5)
    _, said = make(tmp_path, settings(tmp_path, encode=found_lexicon(tmp_path, "")))
    assert "phrases.tsv holds no phrase: the coarse vocabulary is of words alone" in said
    assert "lexicon" not in report(tmp_path)["coarse"]


def test_phrases_that_never_stand_in_the_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("New York and New York again.\n" * 3, encoding="utf-8")
    encode = {**found_lexicon(tmp_path, "new york\nlos angeles\nhong kong\n"), "lowercase": False}
    _, said = make(tmp_path, settings(tmp_path, encode=encode))
    assert "3 of the 3 phrases of the lexicon never stand in the text" in said
    assert report(tmp_path)["coarse"]["never_seen"] == report(tmp_path)["coarse"]["lexicon"] == 3
    lowered = settings(tmp_path, encode={**encode, "lowercase": True})
    _, said = make(tmp_path, lowered, options(tmp_path / "out", overwrite=True))
    assert "2 of the 3 phrases of the lexicon never stand in the text" in said
    (tmp_path / "out/phrases/phrases.tsv").write_text("new york\nhong kong\n", encoding="utf-8")
    _, said = make(tmp_path, lowered, options(tmp_path / "out", overwrite=True))
    assert "never stand" not in said
    assert report(tmp_path)["coarse"]["never_seen"] == 1


def test_a_vocabulary_that_takes_no_phrase_says_so(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    _, said = make(tmp_path, settings(tmp_path, vocab={"coarse": {"min_count": 10**6}}))
    assert "no phrase is in the vocabulary" in said
    _, said = make(tmp_path, settings(tmp_path), options(tmp_path / "out", overwrite=True))
    assert "no phrase is in the vocabulary" not in said


@pytest.mark.parametrize("name", ["vocab.txt", "coarse_vocab.txt", "report.json", "manifest.json"])
def test_files_that_no_run_made_are_not_replaced(tmp_path: Path, name: str) -> None:
    write_corpus(tmp_path, documents=5)
    folder = tmp_path / "out/vocab"
    folder.mkdir(parents=True)
    (folder / name).write_text("mine\n")
    with pytest.raises(RunError, match=rf"vocab holds {name}, but .* --overwrite"):
        make(tmp_path)
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "mine\n"
    assert not (tmp_path / "out/annotated").exists()


def test_a_damaged_manifest_is_told_and_nothing_replaced(tmp_path: Path) -> None:
    write_corpus(tmp_path, documents=5)
    make(tmp_path)
    (tmp_path / "out/vocab/manifest.json").write_text("{")
    before = contents(tmp_path)
    with pytest.raises(
        RunError, match=r"holds manifest\.json and report\.json and vocab\.txt and coarse_vocab"
    ):
        make(tmp_path)
    assert contents(tmp_path) == before
    make(tmp_path, None, options(tmp_path / "out", overwrite=True))
    assert contents(tmp_path)["vocab.txt"] == before["vocab.txt"]


def test_one_side_may_lie_beside_what_a_run_made_but_not_be_replaced(tmp_path: Path) -> None:
    write_corpus(tmp_path, documents=5)
    make(tmp_path, fine=True)
    mine = tmp_path / "out/vocab/coarse_vocab.txt"
    mine.write_text("mine\n")
    with pytest.raises(RunError, match=r"vocab holds coarse_vocab\.txt, but"):
        make(tmp_path, coarse=True)
    mine.unlink()
    make(tmp_path, coarse=True)


@pytest.mark.parametrize(
    ("side", "keys"),
    [
        ("fine", {"size": 10**20}),
        ("fine", {"min_count": 10**23}),
        ("fine", {"alphabet": 10**23}),
        ("coarse", {"size": 10**20}),
        ("coarse", {"min_count": 10**23}),
    ],
)
def test_numbers_that_nothing_can_be_compared_with(tmp_path: Path, side: str, keys: dict) -> None:
    path = tmp_path / "c.yaml"
    body = settings(tmp_path).model_dump(mode="json", exclude_unset=True)
    path.write_text(yaml.safe_dump({**body, "vocab": {side: keys}}), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"vocab\.{side}\.{next(iter(keys))}"):
        load_config(path)


def test_the_largest_numbers_that_may_be(tmp_path: Path) -> None:
    write_corpus(tmp_path, documents=5)
    most = {"size": 10_000_000, "min_count": 10**15}
    make(tmp_path, settings(tmp_path, vocab={"fine": {**most, "alphabet": 10**15}, "coarse": most}))


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    write_corpus(tmp_path, documents=5)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/vocab").write_text("")
    with pytest.raises(ConfigError, match=r"--out: .*out/vocab is a file"):
        make(tmp_path)


def test_what_a_stopped_run_wrote_is_no_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(tmp_path, documents=5)

    def dies(self, block, out):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(steps.MeasureFine, "process", dies)
        with pytest.raises(MemoryError):
            make(tmp_path)
    assert (tmp_path / "out/vocab/vocab.txt").exists()
    assert sorted(make(tmp_path)[0]) == ["coarse", "fine"]


@pytest.mark.parametrize(
    ("task", "encode", "key"),
    [
        ("span", {"max_length": 96}, "encode.span.doc_stride is 128"),
        ("seq2seq", {"max_length": 16, "seq2seq": {"max_target": 14}}, "encode.seq2seq.max_target"),
    ],
)
def test_no_vocabulary_is_made_for_rows_that_would_have_no_room(
    tmp_path: Path, task: str, encode: dict[str, object], key: str
) -> None:
    folder = tmp_path / "out/vocab"
    asked = {"format": "squad", "files": "a.json"}
    config = settings(
        tmp_path,
        task=task,
        input=asked,
        encode={"tokenizer": str(folder / "vocab.txt"), "columns": [], **encode},
    )
    with pytest.raises(ConfigError, match=key):
        make(tmp_path, config)
    assert not folder.exists()
