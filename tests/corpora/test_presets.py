"""Presets: every corpus in the layout of its own files, a few lines of each written for the purpose."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from corpora.layout import InputConfig
from corpora.presets import PRESETS, find_preset
from corpora.readers import ColumnError
from tests.corpora.conftest import Read, read_layout

ReadSplits = Callable[..., Read]


@pytest.fixture
def read_preset(tmp_path: Path) -> ReadSplits:
    """`read_preset("glue/sst2", train="...", test="...")`: a file a split, by the preset and what is said beside."""

    def run(
        preset: str, said: dict[str, Any] | None = None, language: str = "en", **splits: str | bytes
    ) -> Read:
        for name, body in splits.items():
            (tmp_path / f"{name}.x").write_bytes(body if isinstance(body, bytes) else body.encode())
        files = {name: f"{name}.x" for name in splits}
        layout = InputConfig(**{"preset": preset, "files": files, **(said or {})})
        return read_layout(layout, tmp_path, PRESETS[preset].task, language, 40, 1 << 20)

    return run


def tsv(*rows: Sequence[str]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def jsonl(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def labels(got: Read) -> list[Any]:
    return [row["label"] for row in got.rows]


def pairs(got: Read) -> list[tuple[str, str, Any]]:
    return [(row["text"], row["text_pair"], row["label"]) for row in got.rows]


# --- GLUE -------------------------------------------------------------------------------------


def test_cola_has_no_header_but_in_its_test_set(read_preset: ReadSplits) -> None:
    got = read_preset(
        "glue/cola",
        train=tsv(
            ["gj04", "1", "", "They drank the pub."], ["gj04", "0", "*", 'They said "sentence" the pub.']
        ),
        dev=tsv(["bc01", "1", "", "sentence"]),
        test=tsv(["index", "sentence"], ["0", "Bill whistled."], ["1", "Bill\u2028left."]),
    )
    assert [(r["text"], r["label"]) for r in got.rows] == [
        ("They drank the pub.", "1"),
        ('They said "sentence" the pub.', "0"),
        ("sentence", "1"),
        ("Bill whistled.", None),
        ("Bill\u2028left.", None),
    ]
    assert [r["source"] for r in got.rows][3:] == ["test.x@15", "test.x@32"]


def test_sst2_quotes_mean_nothing(read_preset: ReadSplits) -> None:
    got = read_preset(
        "glue/sst2",
        train=tsv(["sentence", "label"], ['"a " moving story ', "1"], ["`` dull ''", "0"]),
        test=tsv(["index", "sentence"], ["0", 'an "odd film']),
    )
    assert got.texts == ['"a " moving story ', "`` dull ''", 'an "odd film'] and labels(got) == [
        "1",
        "0",
        None,
    ]


def test_mrpc_begins_with_a_byte_order_mark(read_preset: ReadSplits) -> None:
    header = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
    got = read_preset(
        "glue/mrpc",
        train="\ufeff" + tsv(header, ["1", "702876", "702977", 'Amrozi "the witness".', "He."]),
        test="\ufeff" + tsv(["index", *header[1:]], ["0", "1089874", "1089925", "PCCW's chief.", "Arena."]),
    )
    assert pairs(got) == [('Amrozi "the witness".', "He.", "1"), ("PCCW's chief.", "Arena.", None)]
    assert not got.rejects


def test_stsb_has_scores(read_preset: ReadSplits) -> None:
    names = ["index", "genre", "filename", "year", "old_index", "source1", "source2"]
    cells = ["0", "main-captions", "MSRvid", "2012test", "0001", "none", "none"]
    got = read_preset(
        "glue/stsb",
        train=tsv(
            [*names, "sentence1", "sentence2", "score"], [*cells, "A plane.", "An air plane.", "5.000"]
        ),
        test=tsv([*names, "sentence1", "sentence2"], [*cells, "A girl.", "A woman."]),
    )
    assert [(r["text_pair"], r["label"], r["label_score"]) for r in got.rows] == [
        ("An air plane.", None, 5.0),
        ("A woman.", None, None),
    ]


def test_qqp_broken_lines_are_rejected(read_preset: ReadSplits) -> None:
    train = tsv(
        ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
        ["0", "1", "2", "How is Delhi?", "Is Delhi good?", "0"],
        ["1", "3", "4", "Why do"],
        ["we ask?", "Why?", "1"],
        ["2", "5", "6", "What?", "", "0"],
        ["3", "7", "8", 'A "word', "A word", "1"],
    )
    got = read_preset(
        "glue/qqp", train=train, test=tsv(["id", "question1", "question2"], ["0", "Who?", "Whom?"])
    )
    assert pairs(got) == [
        ("How is Delhi?", "Is Delhi good?", "0"),
        ('A "word', "A word", "1"),
        ("Who?", "Whom?", None),
    ]
    assert [(r.line, r.reason) for r in got.rejects] == [
        (3, "unequal_fields"),
        (4, "unequal_fields"),
        (5, "empty_text"),
    ]


def test_mnli_and_snli_leave_out_pairs_without_a_gold_label(read_preset: ReadSplits) -> None:
    parses = [f"sentence{i}_{kind}" for kind in ("binary_parse", "parse") for i in (1, 2)]
    head = ["index", "promptID", "pairID", "genre", *parses, "sentence1", "sentence2"]
    cells = ["0", "31193", "31193n", "government", "( a )", "( b )", "(ROOT a)", "(ROOT b)"]
    got = read_preset(
        "glue/mnli",
        train=tsv([*head, "label1", "gold_label"], [*cells, "Cream.", "Products.", "neutral", "neutral"]),
        dev_matched=tsv(
            [*head, *(f"label{i}" for i in range(1, 6)), "gold_label"],
            [*cells, "New.", "Old.", *["neutral", "", "", "", ""], "contradiction"],
            [*cells, "Who?", "Me.", *["neutral", "entailment", "", "", ""], "-"],
        ),
        test_mismatched=tsv(head, [*cells, "What?", "That."]),
    )
    assert pairs(got) == [
        ("Cream.", "Products.", "neutral"),
        ("New.", "Old.", "contradiction"),
        ("What?", "That.", None),
    ]
    assert got.counts == {"labels_skipped": 1} and not got.rejects

    head = ["index", "captionID", "pairID", *parses, "sentence1", "sentence2", "label1", "gold_label"]
    cells = ["0", "3416050480.jpg#4", "3416050480.jpg#4r1n", "a", "b", "c", "d"]
    got = read_preset(
        "glue/snli",
        train=tsv(
            head,
            [*cells, "A horse.", "A diner.", "neutral", "neutral"],
            [*cells, "A", "B", "neutral", "-"],
        ),
    )
    assert pairs(got) == [("A horse.", "A diner.", "neutral")] and got.counts == {"labels_skipped": 1}
    record = {"annotator_labels": ["neutral"], "captionID": "1", "gold_label": "entailment", "pairID": "1"}
    record |= {"sentence1": "A", "sentence1_parse": "(A)", "sentence2": "B"}
    got = read_preset("glue/snli", {"format": "jsonl"}, train=jsonl(record, {**record, "gold_label": "-"}))
    assert pairs(got) == [("A", "B", "entailment")] and got.counts == {"labels_skipped": 1}


@pytest.mark.parametrize(
    ("preset", "first", "second"),
    [
        ("glue/qnli", "question", "sentence"),
        ("glue/rte", "sentence1", "sentence2"),
        ("glue/wnli", "sentence1", "sentence2"),
    ],
)
def test_qnli_rte_and_wnli(read_preset: ReadSplits, preset: str, first: str, second: str) -> None:
    got = read_preset(
        preset,
        train=tsv(["index", first, second, "label"], ["0", "Where?", "Here.", "entailment"]),
        dev=tsv(["index", first, second, "label"], ["0", "Who?", '"Me".', "not_entailment"]),
        test=tsv(["index", first, second], ["0", "When?", "Now."]),
    )
    assert pairs(got) == [
        ("Where?", "Here.", "entailment"),
        ("Who?", '"Me".', "not_entailment"),
        ("When?", "Now.", None),
    ]


def test_the_diagnostic_set_is_a_test_set(read_preset: ReadSplits) -> None:
    body = tsv(["index", "sentence1", "sentence2"], ["0", "The cat sat.", "The cat did not sit."])
    assert pairs(read_preset("glue/ax", test=body)) == [("The cat sat.", "The cat did not sit.", None)]
    with pytest.raises(ColumnError, match="name its split `test`"):
        read_preset("glue/ax", train=body)


# --- CLUE -------------------------------------------------------------------------------------


def test_clue_pairs_and_single_texts(read_preset: ReadSplits) -> None:
    got = read_preset(
        "clue/afqmc",
        train=jsonl({"sentence1": "双十一花呗提额在哪", "sentence2": "里可以提花呗额度", "label": "0"}),
        test=jsonl({"id": 0, "sentence1": "借呗", "sentence2": "花呗"}),
    )
    assert pairs(got) == [("双十一花呗提额在哪", "里可以提花呗额度", "0"), ("借呗", "花呗", None)]
    record = {"label": "108", "label_desc": "news_edu", "sentence": "上课时学生", "keywords": ""}
    got = read_preset(
        "clue/tnews", train=jsonl(record), test=jsonl({"id": 0, "sentence": "股", "keywords": ""})
    )
    assert [(r["text"], r["text_pair"], r["label"]) for r in got.rows] == [
        ("上课时学生", None, "108"),
        ("股", None, None),
    ]
    assert labels(read_preset("clue/tnews", {"label": "label_desc"}, train=jsonl(record))) == ["news_edu"]
    record = {"label": 110, "label_des": "社区超市", "sentence": "朴朴快送"}
    assert labels(read_preset("clue/iflytek", train=jsonl(record))) == ["110"]


def test_clue_inference_without_a_gold_label(read_preset: ReadSplits) -> None:
    record = {"sentence1": "身上裹一件工厂", "sentence2": "穿着", "label": "entailment"}
    more = {"level": "medium", "label0": "-", "genre": "lit", "prem_id": "lit_635", "id": 0}
    for preset in ("clue/cmnli", "clue/ocnli"):
        got = read_preset(
            preset,
            train=jsonl({**more, **record}, {**more, **record, "label": "-"}),
            dev=jsonl({**record, "label": "-"}, {**record, "label": "neutral"}),
            test=jsonl({"id": 0, "sentence1": "他", "sentence2": "她"}),
        )
        assert labels(got) == ["entailment", "neutral", None]
        assert got.counts == {"labels_skipped": 2} and not got.rejects


def test_csl_keywords_are_joined(read_preset: ReadSplits) -> None:
    records = [
        {"id": 1, "abst": "本文研究树。", "keyword": ["句法树", " ", "剪枝"], "label": "1"},
        {"id": 2, "abst": "为解决传统均匀", "keyword": ["水声"], "label": "0"},
        {"id": 3, "abst": "无词", "keyword": [], "label": "0"},
    ]
    got = read_preset("clue/csl", train=jsonl(*records))
    assert pairs(got) == [("句法树 剪枝", "本文研究树。", "1"), ("水声", "为解决传统均匀", "0")]
    assert got.reasons == ["empty_text"]
    got = read_preset("clue/csl", {"joiner": "；"}, train=jsonl(*records[:1]))
    assert got.texts == ["句法树；剪枝"]
    got = read_preset("clue/csl", {"text": "abst", "text_pair": "keyword"}, train=jsonl(*records[:1]))
    assert got.texts == ["本文研究树。"]


def test_cluewsc_marks_both_mentions(read_preset: ReadSplits) -> None:
    text = "裂开的伤口涂满尘土，里面有碎石子和木头刺，我小心翼翼把它们剔除出去。"
    target = {"span2_index": 27, "span1_index": 0, "span1_text": "裂开", "span2_text": "它们"}
    before = {"span2_index": 2, "span1_index": 3, "span1_text": "伤口", "span2_text": "的"}
    wrong = {**target, "span2_index": 26}
    nested = {"span1_text": "碎石子和木头刺", "span1_index": 13, "span2_text": "木头刺", "span2_index": 17}
    got = read_preset(
        "clue/cluewsc2020",
        train=jsonl(
            {"target": target, "idx": 261, "label": "false", "text": text},
            {"target": before, "idx": 262, "label": "true", "text": text},
            {"target": wrong, "idx": 263, "label": "true", "text": text},
            {"idx": 264, "label": "true", "text": text},
            {"target": nested, "idx": 265, "label": "true", "text": text},
        ),
        test=jsonl({"target": target, "id": 0, "text": text}),
    )
    marked = "_裂开_的伤口涂满尘土，里面有碎石子和木头刺，我小心翼翼把[它们]剔除出去。"
    assert got.texts == [
        marked,
        "裂开[的]_伤口_涂满尘土，里面有碎石子和木头刺，我小心翼翼把它们剔除出去。",
        "裂开的伤口涂满尘土，里面有_碎石子和[木头刺]_，我小心翼翼把它们剔除出去。",
        marked,
    ]
    assert labels(got) == ["false", "true", "true", None]
    assert got.reasons == ["bad_mention"] * 2
    assert got.rejects[0].detail == "'target.span2_text': expected '它们' at character 26, found '把它'"


def test_cluener_mentions_become_labels(read_preset: ReadSplits) -> None:
    text = "浙商银行的叶老桂 hi"
    mentions = {"name": {"叶老桂": [[5, 7]]}, "company": {"浙商银行": [[0, 3]]}}
    got = read_preset(
        "clue/cluener",
        train=jsonl(
            {"text": text, "label": mentions},
            {"text": text, "label": {}},
            {"text": text, "label": {"a": {"浙商": [[0, 1]], "商": [[1, 1]]}, "b": {"浙商银行": [[0, 3]]}}},
            {"text": text, "label": {"name": {"叶老桂": [[5, 8]]}}},
            {"text": text, "label": {"name": {"叶老桂": [[4, 6]]}}},
            {"text": text, "label": {"name": ["叶老桂"]}},
            {"text": text, "label": {"name": {"叶老桂": [5, 7]}}},
            {"text": text},
        ),
        test=jsonl({"id": 0, "text": text}, {"id": 1, "text": "好"}),
        dev=jsonl({"text": text, "label": mentions}, {"text": "好"}),
    )
    name = ["O"] * 5 + ["B-name", "I-name", "I-name"] + ["O"] * 3
    assert [r["tag_labels"] for r in got.rows] == [
        ["B-company", "I-company", "I-company", "I-company", *name[4:]],
        ["O"] * 11,
        ["B-b", "I-b", "I-b", "I-b", *["O"] * 7],
        None,
        None,
        ["B-company", "I-company", "I-company", "I-company", *name[4:]],
        None,
    ]
    assert got.texts == [text, text, text, text, "好", text, "好"]
    assert [r["tag_stops"] for r in got.rows][-3:] == [[1], list(range(1, 12)), [1]]
    assert got.reasons == ["bad_mention", "bad_mention", "bad_type", "bad_type", "missing_label"]
    assert got.counts == {"overlapping_mentions": 2}


def test_presets_of_questions_name_their_format() -> None:
    for name, task, layout in (
        ("clue/cmrc", "span", "squad"),
        ("clue/drcd", "span", "squad"),
        ("clue/c3", "choice", "c3"),
    ):
        assert PRESETS[name].task == task
        assert InputConfig(preset=name, files={"train": ["a"]}).format == layout
    with pytest.raises(ValueError, match="'clue/chid' is not supported: ChID's blanks"):
        InputConfig(preset="clue/chid", files={"train": ["a"]})


# --- others -----------------------------------------------------------------------------------


def test_webtext_joins_question_description_and_answer(read_preset: ReadSplits) -> None:
    record = {
        "qid": 65618973,
        "title": "AlphaGo只会下围棋吗？",
        "desc": "那么现在会不会有人\r\n问",
        "topic": "机器人",
    }
    record |= {"star": 3, "content": "AlphaGo只会下围棋。", "answer_id": 545576062, "answerer_tags": "人类"}
    got = read_preset(
        "webtext-zh",
        language="zh",
        train=jsonl(
            record, {**record, "desc": ""}, {**record, "title": None, "desc": " ", "content": ""}, {"qid": 1}
        ),
    )
    title, content = record["title"], record["content"]
    assert got.texts == [f"{title}\n{record['desc']}\n{content}", f"{title}\n{content}"]
    assert got.reasons == ["empty_text", "missing_text"]


def test_k_bert_layouts(read_preset: ReadSplits) -> None:
    got = read_preset("kbert/chnsenticorp", train=tsv(["label", "text_a"], ["1", '位置"好"']))
    assert [(r["text"], r["label"]) for r in got.rows] == [('位置"好"', "1")]
    got = read_preset(
        "kbert/medical_ner",
        language="zh",
        train=tsv(["text_a", "label"], ["腹 痛 3 天", "B-Symptom I-Symptom O O"]),
        test=tsv(["text_a"], ["头 晕"]),
    )
    assert got.texts == ["腹痛3天", "头晕"]
    assert [r["tag_labels"] for r in got.rows] == [["B-Symptom", "I-Symptom", "O", "O"], None]
    assert got.rows[1]["tag_starts"] == [0, 1]


# --- what a preset is -------------------------------------------------------------------------


def test_a_preset_says_the_same_as_its_keys_and_what_is_written_wins() -> None:
    files = {"train": ["a"]}
    keys = {"format": "tsv", "text": "sentence", "label": "label", "label_optional": True}
    by_name, by_hand = InputConfig(preset="glue/sst2", files=files), InputConfig(files=files, **keys)
    assert by_name.model_dump() == by_hand.model_dump()
    assert by_name.model_dump(exclude_unset=True) == by_hand.model_dump(exclude_unset=True)
    other = InputConfig(preset="glue/sst2", files=files, text="review", label_optional=False)
    assert (other.text, other.label, other.label_optional) == ("review", "label", False)
    # Another format drops what it could not heed, but not what the user says.
    assert InputConfig(preset="glue/cola", files=files, format="jsonl").header is None
    with pytest.raises(ValueError, match="'header' is for format tsv or csv"):
        InputConfig(preset="glue/cola", files=files, format="jsonl", header=["a"])


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_layout(name: str) -> None:
    layout = InputConfig(preset=name, files={"train": ["a"]})
    assert layout.model_dump(include=set(find_preset(name).keys)) == dict(
        InputConfig(files={"train": ["a"]}, **find_preset(name).keys).model_dump(
            include=set(find_preset(name).keys)
        )
    )
    assert find_preset(name).files


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("glue/SST-2", "did you mean 'glue/sst2'"),
        ("sst2", "did you mean 'glue/sst2'"),
        ("clue/ocnil", "'clue/ocnli'"),
        ("kbert/medical-ner", "did you mean 'kbert/medical_ner'"),
        ("xyzzy", "there are glue/cola, glue/sst2"),
    ],
)
def test_unknown_presets_name_those_that_are_near(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"unknown preset {name!r}; .*{hint}"):
        InputConfig(preset=name, files={"train": ["a"]})


def test_a_mistyped_label_of_a_training_file_stays_an_error(read_preset: ReadSplits) -> None:
    train = tsv(["sentence", "label"], ["good", "1"])
    with pytest.raises(ColumnError, match=r"no column 'lable' \(input.label\).*did you mean 'label'"):
        read_preset("glue/sst2", {"label": "lable"}, train=train)
    # Nor is it forgiven where training has another name.
    with pytest.raises(ColumnError, match="no column 'lable'"):
        read_preset("glue/sst2", {"label": "lable", "train_splits": ["own"]}, own=train)
    with pytest.raises(
        ColumnError, match=r"no column 'label'.*; a test set .* needs `input.label_optional: true`"
    ):
        read_preset("glue/sst2", {"label_optional": False}, test=tsv(["index", "sentence"], ["0", "good"]))
    # A label that is there twice is an error even where it may be missing.
    with pytest.raises(ColumnError, match="2 times"):
        read_preset("glue/sst2", test=tsv(["label", "sentence", "label"], ["0", "good", "1"]))
