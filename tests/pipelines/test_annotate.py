"""The annotate stage: whole tables in, whole tables out, nothing lost, nothing invented."""

from __future__ import annotations

import pickle
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from corpora.plan import plan_blocks
from corpora.records import Reject
from corpora.schema import annotated_schema, read_metadata
from corpora.shards import open_shard
from pipelines.annotate import annotator, spacy_models, toolbox
from pipelines.annotate.stage import Annotate, primary_language
from pipelines.config import Config, ConfigError
from pipelines.engine import Run, run_block
from tests.pipelines.raw import check_document, config, raw

HERE = str(Path(__file__))


def ready(settings: Config, path: str = HERE) -> Annotate:
    stage = Annotate(settings, path)
    stage.setup()
    return stage


def annotate(settings: Config, table: pa.Table) -> tuple[list[dict[str, Any]], Counter[str], list[Reject]]:
    rejects: list[Reject] = []
    annotated, counts = ready(settings).annotate_table(table, rejects.append)
    annotated.validate(full=True)
    return annotated.to_pylist(), counts, rejects


# --- texts ------------------------------------------------------------------------------------


def test_c11_offsets_are_of_the_document():
    text = "Well...  pretty good.\n\nNext one."
    [row], counts, _ = annotate(config(), raw([text]))
    check_document(row)
    assert (row["sentence_starts"], row["sentence_stops"]) == ([0, 23], [21, 32])
    assert (row["word_starts"][5], row["word_stops"][5]) == (23, 27)
    assert row["text"] == text
    assert counts == Counter(
        documents=1, sentences=2, words=8, characters=32, words_repaired=0, sentences_cut=0
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_c08_a_zero_width_word_keeps_its_place_in_the_tree(language):
    text = "Alice \u200b joined Acme"
    [row], _, _ = annotate(config(language), raw([text]))
    check_document(row)
    words = [text[a:b] for a, b in zip(row["word_starts"], row["word_stops"], strict=True)]
    assert words == ["Alice", "\u200b", "joined", "Acme"]
    assert len(row["word_heads"]) == 4


def test_both_texts_of_a_pair_are_annotated():
    settings = config("zh", label="label", text_pair="b")
    table = raw(
        ["我爱北京。", "你好！", "好。"], text_pair=["他来了。我走了。", None, "  "], label=["1", "0", "1"]
    )
    rows, counts, _ = annotate(settings, table)
    for row in rows:
        check_document(row)
    check_document(rows[0], "_pair")
    assert rows[0]["sentence_starts_pair"] == [0, 4]
    assert rows[1]["word_starts_pair"] is None and rows[1]["word_deprels_pair"] is None
    assert rows[2]["word_starts_pair"] == []  # a text of blanks is there, and has no words
    assert counts["documents"] == 3 and counts["sentences"] == 5


def test_labels_and_tags_pass_untouched():
    body = config("zh", label="label").model_dump(exclude_unset=True)
    settings = Config.model_validate({**body, "task": "tag"})
    table = raw(
        ["北京好", "天"],
        tag_starts=[[0, 1, 2], []],
        tag_stops=[[1, 2, 3], []],
        tag_labels=[["B-LOC", "I-LOC", "O"], []],
    )
    rows, _, _ = annotate(settings, table)
    assert rows[0]["tag_labels"] == ["B-LOC", "I-LOC", "O"] and rows[0]["tag_stops"] == [1, 2, 3]
    assert rows[1]["tag_labels"] == []  # an empty list is not a missing one
    assert [r["word_starts"] for r in annotate(settings, raw(["北京好", "天"]))[0]] == [
        r["word_starts"] for r in rows
    ]


def test_a_block_of_several_languages_keeps_its_order():
    settings = config("zh", mixed=True)
    texts = ["我爱北京。", "Dr. Who is here. Yes.", "再见", "Guten Tag", "Go home", "你好"]
    tags = [None, "en-GB", "zh_Hant", "de", "EN", "zh"]
    rows, counts, rejects = annotate(settings, raw(texts, language=tags))
    assert [r["text"] for r in rows] == [t for t in texts if t != "Guten Tag"]
    assert [r["language"] for r in rows] == ["zh", "en", "zh", "en", "zh"]
    for row in rows:
        check_document(row)
    alone = annotate(config("en"), raw([texts[1]]))[0][0]
    assert rows[1] == {**alone, "doc_id": "d1", "source": "f.txt@1"}
    [reject] = rejects
    assert (reject.path, reject.byte, reject.reason) == ("f.txt", 3, "unknown_language")
    assert reject.detail == "expected one of en, zh, found 'de'" and counts["documents"] == 5


@pytest.mark.parametrize("tag", ["../en", "x" * 500, "1", "  "])
def test_a_strange_language_is_a_reject(tag):
    _, _, rejects = annotate(
        config("en", annotate={"parser": "none"}, mixed=True), raw(["Hi"], language=[tag])
    )
    assert [r.reason for r in rejects] == ["unknown_language"]


def test_blank_texts_are_rejected():
    rows, counts, rejects = annotate(config(), raw([" \n\u3000", "Hi", ""]))
    assert [r["doc_id"] for r in rows] == ["d1"] and counts["documents"] == 1
    assert [(r.byte, r.reason) for r in rejects] == [(0, "empty_text"), (2, "empty_text")]


@pytest.mark.parametrize("texts", [[], [" "]])
def test_a_table_may_end_up_empty(texts):
    settings = config("zh", mixed=True, label="l", text_pair="b")
    table, _ = ready(settings).annotate_table(raw(texts), lambda reject: None)
    assert table.num_rows == 0 and table.schema == annotated_schema(parsed=True, pair=True)


def test_without_a_parser_there_are_words_but_no_trees():
    settings = config("de", annotate={"parser": "none"}, mixed=True)
    rows, counts, _ = annotate(settings, raw(["Guten Tag. Wie geht es?", "你好吗？"], language=[None, "zh"]))
    for row in rows:
        check_document(row)
    assert "word_heads" not in rows[0] and len(rows[0]["sentence_starts"]) == 2
    assert "words_repaired" not in counts


def test_long_sentences_become_several():
    text = "one two, three four five six seven eight nine"
    [row], counts, _ = annotate(config(annotate={"max_sentence_words": 4}), raw([text]))
    check_document(row)
    assert row["sentence_starts"] == [0, 9, 29] and counts["sentences_cut"] == 2


def test_the_parser_may_find_the_sentences():
    settings = config(annotate={"sentences": "parser"})
    texts = ["He came. i slept.\n\nShe\n\nleft, you know", "Yes."]
    rows, counts, _ = annotate(settings, raw(texts))
    for row in rows:
        check_document(row)
    assert counts["sentences"] == sum(len(r["sentence_starts"]) for r in rows)


def test_chunks_change_nothing(monkeypatch):
    texts = [f"Text {n} is short. Number {n} it is, as I said." for n in range(40)]
    whole, counts, _ = annotate(config(), raw(texts))
    monkeypatch.setattr(annotator, "_CHUNK_CHARS", 100)
    assert annotate(config(), raw(texts)) == (whole, counts, [])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_c12_memory_zones_of_parser_and_segmenter_do_not_clash(monkeypatch, language):
    texts = [f"The {n:x}zq{n} was seen. 我爱{n}北京。" for n in range(20)]
    plain = annotate(config(language), raw(texts))
    monkeypatch.setattr("pipelines.annotate.spacy_words._WARM_WORDS", 0)
    assert annotate(config(language), raw(texts)) == plain
    nlp = toolbox.Toolbox(config(language), HERE).annotator(language).parser.nlp
    before = sum(1 for _ in nlp.vocab)
    annotate(config(language), raw([text.replace("zq", "qz") for text in texts]))
    assert sum(1 for _ in nlp.vocab) == before


def test_a_long_document_is_parsed_in_pieces():
    text = "He saw the cat on the mat, and it saw him. " * 700  # 8,400 words
    [row], _, _ = annotate(config(), raw([text.strip()]))
    assert len(row["sentence_starts"]) == 700
    check_document(row)


# --- the stage --------------------------------------------------------------------------------


def test_c34_only_plain_tables_cross_steps_and_models_load_once():
    stage = Annotate(config("zh"), HERE)
    assert len(pickle.dumps(stage)) < 10_000
    loaded = dict(spacy_models.loads)
    toolbox._LOADED.clear()
    tables = []
    for _ in range(4):  # four copies in one process, 100 documents in all
        copy = pickle.loads(pickle.dumps(stage))
        copy.setup()
        copy.setup()
        tables.append(copy.annotate_table(raw([f"第{n}个人爱北京。" for n in range(25)]), print)[0])
        assert len(pickle.dumps(copy)) < 10_000  # nor does a used stage carry its models
    assert spacy_models.loads["zh_ud_small"] == loaded.get("zh_ud_small", 0) + 1
    assert [type(k) for k in toolbox._LOADED] == [tuple, tuple]  # one parser, one jieba
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema) as writer:
        writer.write_table(tables[0])
    assert pa.ipc.open_stream(sink.getvalue()).read_all().equals(tables[3])
    assert sink.getvalue().size / 25 < 10_000


def test_a_block_becomes_a_shard_with_counts_and_sets(tmp_path):
    (tmp_path / "f.jsonl").write_text(
        '{"t": "我爱北京。", "l": "好"}\nbad\n{"t": " ", "l": "坏"}\n{"t": "你好", "l": "差"}\n',
        encoding="utf-8",
    )
    settings = config("zh", label="l", text="t", files=str(tmp_path / "f.jsonl"))
    stage = ready(settings)
    [block] = plan_blocks(settings.input, str(tmp_path), 2**20)
    Run(stage, [block], str(tmp_path / "out")).prepare()
    record = run_block(stage, block, str(tmp_path / "out"), lambda totals: None)
    assert record.counters["records"] == 4 and record.counters["documents"] == 2
    assert sum(record.rejects.values()) == 2 and record.rejects["bad_json"] == 1
    assert record.sets["labels"] == sorted(["差", "好"])
    shard = open_shard(str(tmp_path / "out" / block.shard_name)).read_all()
    seen = {d for row in shard["word_deprels"].to_pylist() for d in row}
    assert record.sets["deprels"] == sorted(seen) and "root" in seen
    meta = read_metadata(shard.schema)
    assert meta["stage"] == "annotate" and meta["parser"]["name"] == "zh_ud_small"
    assert meta["segmenter"]["name"] == "jieba" and meta["fingerprint"] == stage.fingerprint


@pytest.mark.parametrize(("language", "parser"), [("zh", "default"), ("en", "default"), ("zh", "none")])
def test_words_are_counted_while_a_table_is_under_way(tmp_path, monkeypatch, language, parser):
    """One table may take a minute: the counts go on in it, and end as they would without that."""
    monkeypatch.setattr(annotator, "_CHUNK_CHARS", 400)
    text = {"zh": "我爱北京天安门。", "en": "My cat sees a dog."}[language]
    (tmp_path / "f.jsonl").write_text("".join(f'{{"text": "{text * (9 + i)}"}}\n' for i in range(20)))
    settings = config(language, annotate={"batch_words": 60, "parser": parser})
    stage = ready(settings)
    [block] = plan_blocks(settings.input, str(tmp_path), 2**20)
    Run(stage, [block], str(tmp_path / "out")).prepare()
    seen: list[Counter[str]] = []
    record = run_block(stage, block, str(tmp_path / "out"), lambda totals: seen.append(Counter(totals)))
    words = [totals["words"] for totals in seen if not totals["documents"]]
    assert len(words) > 6 and words == sorted(set(words))
    assert words[-1] == record.counters["words"] == seen[-1]["words"]


def test_the_fingerprint_follows_whatever_shapes_the_output(tmp_path):
    (tmp_path / "user.txt").write_text("云计算\n", encoding="utf-8")
    path = str(tmp_path / "c.yaml")
    prints = [
        Annotate(settings, path).fingerprint
        for settings in (
            config("zh"),
            config("en"),
            config("zh", annotate={"parser": "none"}),
            config("zh", annotate={"max_sentence_words": 7}),
            config("zh", annotate={"user_dict": "user.txt"}),
            config("zh", mixed=True),
            config("zh", text="other"),
        )
    ]
    (tmp_path / "user.txt").write_text("云计算 5\n", encoding="utf-8")
    prints.append(Annotate(config("zh", annotate={"user_dict": "user.txt"}), path).fingerprint)
    assert len(set(prints)) == len(prints)
    again = [Annotate(config("zh", files="elsewhere/*.jsonl"), p).fingerprint for p in (HERE, path)]
    assert again == [prints[0]] * 2  # which files: the blocks say


def test_c30_the_user_dictionary_counts_from_the_config(tmp_path):
    (tmp_path / "user.txt").write_text("云计算 5\r\nEdu Trust认证 2000\r\n", encoding="utf-8")
    stage = ready(config("zh", annotate={"user_dict": "user.txt"}), str(tmp_path / "c.yaml"))
    [row] = stage.annotate_table(raw(["用云计算做Edu Trust认证"]), print)[0].to_pylist()
    assert row["word_stops"] == [1, 4, 5, 16]


def test_c30_a_bad_user_dictionary_stops_before_any_work(tmp_path):
    (tmp_path / "user.txt").write_bytes("甲\n乙丙\n".encode("gbk"))
    with pytest.raises(ConfigError, match="line 1: expected UTF-8"):
        Annotate(config("zh", annotate={"user_dict": "user.txt"}), str(tmp_path / "c.yaml"))
    with pytest.raises(ConfigError, match="for Chinese segmentation, but `language` is 'en'"):
        Annotate(config("en", annotate={"user_dict": "user.txt"}), str(tmp_path / "c.yaml"))
    with pytest.raises(ConfigError, match=r"annotate.user_dict: .*missing.txt"):
        Annotate(config("zh", annotate={"user_dict": "missing.txt"}), str(tmp_path / "c.yaml"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (config("de"), "no embedded parser for 'de'"),
        (config("en", annotate={"parser": "nowhere"}), "spacy download nowhere"),
        (config("qq", annotate={"parser": "none"}), "language 'qq'.*usable"),
        (config("../x"), "expected a code such as 'zh' or 'en', found '../x'"),
    ],
)
def test_a_config_that_cannot_work_is_refused_before_any_work(settings, message):
    with pytest.raises(ConfigError, match=message):
        Annotate(settings, HERE)


def test_a_parser_of_another_language_is_refused():
    folder = str(spacy_models.find_pipeline("default", "zh", HERE))
    with pytest.raises(ConfigError, match="is a pipeline for 'zh', but `language` is 'en'"):
        Annotate(config("en", annotate={"parser": folder}), HERE)


def test_a_named_pipeline_gives_what_the_embedded_one_gives():
    folder = str(spacy_models.find_pipeline("default", "en", HERE))
    texts = ["He came home. She left."]
    assert annotate(config("en", annotate={"parser": folder}), raw(texts)) == annotate(
        config("en"), raw(texts)
    )


def test_a_worker_with_other_models_refuses(monkeypatch):
    stage = pickle.loads(pickle.dumps(Annotate(config("en"), HERE)))
    monkeypatch.setattr(
        "pipelines.annotate.toolbox.parser_identity", lambda found: {"name": "x", "version": "2"}
    )
    with pytest.raises(ConfigError, match="other models than the run was planned with"):
        stage.setup()


@pytest.mark.parametrize(("tag", "code"), [("zh-Hans", "zh"), ("zh_CN", "zh"), (" EN ", "en"), ("de", "de")])
def test_languages_are_known_by_their_first_part(tag, code):
    assert primary_language(tag) == code


# --- real data --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "task", "text"),
    [("kbert/medical_ner/dev.tsv", "tag", "text_a"), ("kbert/chnsenticorp/dev.tsv", "classify", "text_a")],
)
def test_every_document_of_real_data_holds_its_promises(real_data, tmp_path, path, task, text):
    body = config("zh", label="label", text=text, format="tsv", files=str(real_data / path)).model_dump(
        exclude_unset=True
    )
    settings = Config.model_validate({**body, "task": task})
    stage = ready(settings)
    records = []
    blocks = plan_blocks(settings.input, str(tmp_path), 2**20)
    Run(stage, blocks, str(tmp_path)).prepare()
    for block in blocks:
        records.append(run_block(stage, block, str(tmp_path), lambda totals: None))
        for row in open_shard(str(tmp_path / block.shard_name)).read_all().to_pylist():
            check_document(row)
    total = sum((Counter(r.counters) for r in records), Counter())
    rows = sum(r.shard.rows for r in records)
    assert total["documents"] == rows == total["records"] - sum(sum(r.rejects.values()) for r in records)
    assert rows > 900 and total["words_repaired"] < total["words"] / 100


def test_wikipedia_documents_keep_title_and_categories(monkeypatch):
    settings = config(annotate={"parser": "none"}, format="wikipedia", files="a.xml")
    rows, _, _ = annotate(settings, raw(["Hi.", "Ho."], title=["A", None], categories=[["b", "c d"], []]))
    assert [(r["title"], r["categories"]) for r in rows] == [("A", ["b", "c d"]), (None, [])]
    stage, plain = ready(settings), ready(config(annotate={"parser": "none"}))
    before = stage.fingerprint, plain.fingerprint
    monkeypatch.setattr(
        "pipelines.annotate.stage.version",
        lambda name: "other" if name == "mwparserfromhell" else version(name),
    )
    assert stage.fingerprint != before[0] and plain.fingerprint == before[1]


def test_wikipedia_is_for_pretraining():
    with pytest.raises(ValueError, match="format 'wikipedia' is for task 'pretrain'"):
        Config.model_validate(
            {
                "task": "classify",
                "language": "en",
                "input": {"format": "wikipedia", "files": "a.xml"},
                "encode": {"tokenizer": "vocab.txt", "columns": []},
            }
        )
