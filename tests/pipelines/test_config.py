"""A wrong config stops before any work and says how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pipelines.config import ConfigError, load_config, resolve

GOOD = {
    "task": "classify",
    "language": "zh",
    "input": {"format": "tsv", "text": "text_a", "label": "label", "files": {"train": "train.tsv"}},
    "encode": {"tokenizer": "vocab.txt"},
}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("task", "  task: this key must be written: one of pretrain, classify, tag, span, choice, seq2seq"),
        ("encode", "  encode: this key must be written, such as `encode: {tokenizer: vocab.txt}`"),
    ],
)
def test_a_missing_key_is_told_what_to_write(tmp_path: Path, key: str, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({name: value for name, value in GOOD.items() if name != key}))
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert message in str(error.value)


def test_what_concerns_several_sections_has_no_prefix(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\n  encode.columns has 'tree'"):
        load_config(write(tmp_path, encode={"tokenizer": "v", "columns": ["tree"]}))


def write(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **changes}, allow_unicode=True), encoding="utf-8")
    return path


def test_defaults_and_shorthands(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, input={**GOOD["input"], "files": "a.tsv"}))
    assert config.input.files == {"train": ["a.tsv"]}
    assert config.encode.columns == ["syntax"]
    assert config.run.workers is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"taks": "tag"}, "taks: unknown key; did you mean 'task'?"),
        (
            {"encode": {"tokenizer": "v", "max_lenght": 12}},
            "encode.max_lenght: unknown key; did you mean 'max_length'?",
        ),
        ({"graph": {"triples": "a.spo", "brnch": 1}}, "graph.brnch: unknown key"),
        (
            {"encode": {"tokenizer": "v", "max_length": 40000}},
            "encode.max_length: Input should be less than or equal to 32767",
        ),
        (
            {"task": "clasify"},
            "found 'clasify'; did you mean 'classify'?",
        ),
        ({"encode": {"tokenizer": "v", "columns": ["tree"]}}, "add a `graph` section"),
        ({"encode": {"tokenizer": "v", "columns": ["coarse"]}}, "add `encode.coarse`"),
        ({"graph": {"triples": "a.spo"}}, "encode.columns lacks 'tree'"),
        ({"encode": {"tokenizer": "v", "coarse": {"vocab": "c"}}}, "encode.columns lacks 'coarse'"),
        ({"annotate": {"parser": "none"}}, "'none': name a parser, or set encode.columns to []"),
        (
            {
                "annotate": {"parser": "none"},
                "encode": {"tokenizer": "v", "columns": ["syntax", "coarse"], "coarse": {"vocab": "c"}},
            },
            "set encode.columns to [coarse]",
        ),
        ({"task": "pretrain", "input": {"format": "text", "files": []}}, "input.files"),
        (
            {"input": {"format": "tsv", "files": "a.tsv"}},
            "needs `input.label`: the field that holds the label; texts without labels, which do not train, need "
            "`input.label_optional: true` instead",
        ),
        (
            {"input": {"format": "tsv", "files": {"test": "b", "train": "a"}, "label_optional": True}},
            "needs `input.label`, for split 'train' trains: name the field that holds the label, or, if there is "
            "none, call the split `test`",
        ),
        (
            {
                "input": {
                    "format": "tsv",
                    "files": {"test": "b"},
                    "label_optional": True,
                    "skip_labels": ["-"],
                }
            },
            "input.skip_labels names labels, and there is no `input.label` to have them: drop it",
        ),
        ({"input": {**GOOD["input"], "files": {"../x": "a"}}}, "split name '../x'"),
        ({"encode": None}, "encode: "),
        (
            {"task": "span", "input": {"format": "jsonl", "files": "a"}},
            "needs format 'squad' or 'parquet' or 'arrow' or 'dataset'",
        ),
        (
            {"task": "span", "input": {"format": "parquet", "files": "a", "text_pair": "context"}},
            "`text: question`, `text_pair: context`, `label: answers`",
        ),
        ({"task": "choice", "input": {"format": "parquet", "files": "a"}}, "needs format 'race' or 'c3'"),
        (
            {
                "task": "span",
                "input": {"format": "squad", "files": {"train": "a"}, "train_splits": ["trian"]},
            },
            "input: train_splits: there is no split 'trian' in files; did you mean 'train'?",
        ),
        (
            {
                "task": "span",
                "input": {"format": "squad", "files": {"a": "a", "b": "b"}, "train_splits": ["x"]},
            },
            "input: train_splits: there is no split 'x' in files; there are 'a', 'b'",
        ),
        (
            {"task": "span", "input": {"format": "squad", "files": {"train": "a"}, "train_splits": []}},
            "input: train_splits is empty: name at least one of the splits 'train', or leave it out",
        ),
        (
            {"task": "pretrain", "input": {"format": "conllu", "files": "a", "id": "x"}},
            "input: id: with document 'blank_line' it can be sent_id; found 'x'",
        ),
        *(
            ({"task": "seq2seq", "input": {"format": "squad", "files": files, "holdout": holdout}}, message)
            for files, holdout, message in (
                ("a", {"de v": 0.1}, "split name 'de v' must be letters, digits and underscores"),
                ({"train": "a", "dev": "b"}, {"dev": 0.1}, "holdout: the split 'dev' has files already"),
                ("a", {"train2": 0.1}, "holdout: the split 'train2' would train"),
                ("a", {"dev": 0.0}, "holdout: the split 'dev' takes a share above 0, found 0.0"),
                ("a", {"dev": 0.5, "test": 0.5}, "the shares leave nothing to train on"),
                ("a", {"dev": 1.5}, "input.holdout.dev: Input should be less than or equal to 1"),
                (
                    {"b": "a"},
                    {"dev": 0.1},
                    "holdout: none of the splits 'b' trains: name one in train_splits",
                ),
            )
        ),
        ({"input": {**GOOD["input"], "holdout": {"dev": 0.1}}}, "'holdout' is for format squad, not 'tsv'"),
        (
            {"task": "seq2seq", "input": {**GOOD["input"], "context": 9, "text_pair": "b", "label": None}},
            "'context' is for format squad, not 'tsv'",
        ),
        (
            {
                "task": "seq2seq",
                "input": {"format": "jsonl", "files": "a", "text_pair": "b", "train_splits": ["train"]},
            },
            "input.train_splits is for task 'seq2seq' with format 'squad' only",
        ),
        (
            {"task": "choice", "input": {"preset": "clue/cmrc", "files": "a"}},
            "input.preset 'clue/cmrc' is for task 'span' or 'seq2seq', found 'choice'",
        ),
        (
            {"task": "span", "input": {"preset": "clue/cluener", "format": "squad", "files": "a"}},
            "input.preset 'clue/cluener' is for task 'tag', found 'span'",
        ),
        ({"format": "tsv"}, "format: unknown key; did you mean 'input.format'?"),
        (
            {"encode": {"tokenizer": "v", "text_pair": "b"}},
            "encode.text_pair: unknown key; did you mean 'input.text_pair'?",
        ),
        (
            {"encode": {"tokenizer": "v", "label": "a"}},
            "encode.label: unknown key; did you mean 'input.label' or 'labels'?",
        ),
        ({"annotate": {"dedup": {}}}, "annotate.dedup: unknown key; did you mean 'dedup'?"),
        (
            {"input": {**GOOD["input"], "score": True}, "encode": {"tokenizer": "v", "labels": ["a"]}},
            "encode.labels names classes, but with input.score labels are numbers",
        ),
    ],
)
def test_wrong_configs_name_the_field_and_the_fix(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(write(tmp_path, **changes))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("task", "section", "key", "value", "tasks"),
    [
        ("span", "encode", "labels", ["a"], "'classify' or 'tag'"),
        ("choice", "encode", "labels", ["a"], "'classify' or 'tag'"),
        ("choice", "encode", "span", {"doc_stride": 128}, "'span'"),
        ("classify", "encode", "pretrain", {}, "'pretrain'"),
        ("pretrain", "encode", "seq2seq", {"max_target": 8}, "'seq2seq'"),
        ("pretrain", "input", "label", "upos", "'classify' or 'tag' or 'span'"),
        ("pretrain", "input", "orphan_inside", "begin", "'tag'"),
        ("span", "input", "context", 100, "'seq2seq'"),
        ("classify", "input", "separator", "", "'tag'"),
    ],
)
def test_settings_of_another_task_are_errors(
    tmp_path: Path, task: str, section: str, key: str, value: object, tasks: str
) -> None:
    formats = {"span": "squad", "choice": "race", "pretrain": "conllu"}
    source = {"format": formats[task], "files": "a"} if task in formats else GOOD["input"]
    body = {"task": task, "input": {**source}, "encode": {"tokenizer": "v"}}
    if key == "orphan_inside":
        body["input"]["format"] = "text"
    load_config(write(tmp_path, **body))
    body[section][key] = value
    with pytest.raises(ConfigError) as error:
        load_config(write(tmp_path, **body))
    assert f"{section}.{key} is for task {tasks}, found {task!r}" in str(error.value)


def graph(tmp_path: Path, **section: object) -> Path:
    return write(tmp_path, encode={"tokenizer": "v", "columns": ["tree"]}, graph=section)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, "graph: expected either `triples` (files) or `compiled`"),
        ({"triples": "a.spo", "compiled": "a.kg"}, "found both"),
        ({"triples": []}, "triples: expected at least one file"),
        ({"compiled": "a.kg", "build": {"fold": ["case"]}}, "`build` goes with `triples`"),
        ({"triples": "a.spo", "depth": 3}, "graph.depth: Input should be 1 or 2, found 3"),
        (
            {"triples": "a.spo", "build": {"fold": ["NFKC"]}},
            "graph.build.fold.0: Input should be 'nfkc', 'case'",
        ),
        ({"triples": "a.spo", "build": {"fld": []}}, "graph.build.fld: unknown key; did you mean 'fold'?"),
        (
            {"triples": "a.csv", "build": {"columns": {"subject": 1}}},
            "columns: expected a column for subject and for object",
        ),
        (
            {"triples": "a.csv", "build": {"columns": {"subject": 0, "object": 2}}},
            "columns.subject: expected a number from 1",
        ),
        (
            {"triples": "a.csv", "build": {"columns": {"subjekt": 1}}},
            "columns: expected the roles subject, predicate, object, found 'subjekt'",
        ),
        ({"triples": "a.csv", "build": {"delimiter": ";;"}}, "delimiter: expected one character"),
        (
            {"triples": "a.csv", "build": {"min_subject": 9, "max_subject": 8}},
            "min_subject 9 is more than max_subject 8",
        ),
        ({"triples": "a.csv", "build": {"format": "conceptnet"}}, "needs `language`"),
        ({"triples": "a.spo", "stop": 3}, "graph.stop: Input should be a valid list, found 3; or: "),
        ({"triples": "a.spo", "max_mention_length": 1}, "less than min_mention_length 2"),
        ({"triples": "a.spo", "include_predicates": []}, "include_predicates is empty"),
        (
            {"triples": "a.spo", "include_predicates": ["x"], "exclude_predicates": ["x"]},
            "'x' stands in include_",
        ),
    ],
)
def test_wrong_graph_sections_name_the_field_and_the_fix(
    tmp_path: Path, section: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(graph(tmp_path, **section))
    assert message in str(error.value)
    assert "list[" not in str(error.value)


def test_a_graph_section_with_everything(tmp_path: Path) -> None:
    build = {"columns": {"subject": "s", "object": 3}, "fold": ["case", "nfkc"], "stop": "stop.txt"}
    made = load_config(
        graph(tmp_path, triples="a.csv", build=build, depth=2, rank="shortest", stop=["x"])
    ).graph
    assert made is not None
    assert made.build.columns == {"subject": "s", "object": 3}
    assert (made.build.stop, made.stop, made.triples, made.depth) == ("stop.txt", ["x"], ["a.csv"], 2)
    assert load_config(graph(tmp_path, compiled="a.kg")).graph.triples is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a\n- b\n", "must be a mapping"),
        (b"a: [1\n", "not valid YAML"),
        (b"\xff\xfe", "cannot be read"),
        (b"!!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_config(path)


def test_missing_file() -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_config("no-such.yaml")


def test_paths_count_from_the_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert resolve(tmp_path / "c.yaml", "a/b.tsv") == str(tmp_path / "a/b.tsv")
    assert resolve(tmp_path / "c.yaml", "gs://x/y") == "gs://x/y"
    assert resolve(tmp_path / "c.yaml", "/abs") == "/abs"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: tag\ntask: classify\n", "'task' stands twice"),
        ("input:\n  files: {train: a, train: b}\n", "'train' stands twice"),
        ("[" * 20_000, "nested too deep"),
    ],
)
def test_yaml_that_means_two_things_or_never_ends_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "c.yaml")


def test_questions_of_a_known_corpus_can_be_asked(tmp_path: Path) -> None:
    known = {"preset": "clue/cmrc", "files": "a", "context": 200, "holdout": {"dev": 0.1}}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({**GOOD, "task": "seq2seq", "input": known}), encoding="utf-8")
    config = load_config(path)
    assert config.input.has_pair and config.input.sources == {"train": ["a"], "dev": ["a"]}
