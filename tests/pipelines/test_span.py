from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.schema import read_metadata
from corpora.shards import open_shard
from pipelines.config import ConfigError
from pipelines.encode import span as module
from pipelines.encode import stage as stage_module
from pipelines.encode.assemble import Cutter
from pipelines.encode.source import Texts
from pipelines.encode.span import Answers, Targets, find_targets, span_rows
from pipelines.encode.stage import Encode
from pipelines.encode.tokenizer import Tokens
from pipelines.encode_config import SpanConfig
from pipelines.ragged import bounds
from tests.pipelines.annotated import DEPRELS, HELD_OUT, Encoded, config_of, document, encode, make_stage
from tests.pipelines.spans import tokens_of
from tests.pipelines.test_encode import ALL, assert_sound, vocab

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def question(name: str, asked: str, context: str, *answers: tuple[str, int], **fields: Any) -> dict[str, Any]:
    """An annotated question; `answers` are (text, first character)."""
    fields = {"is_impossible": False} | fields
    return document(
        name,
        asked,
        pair=True,
        text_pair=context,
        answers=[a for a, _ in answers],
        answer_starts=[s for _, s in answers],
        **fields,
    )


def spans(run: Encoded) -> list[tuple[str, str]]:
    """Id and answer's text of each row, `-` for the null span."""
    return [(row["id"], answer_of(row)) for row in run.rows]


def answer_of(row: dict[str, Any]) -> str:
    start, stop = row["answer_start"], row["answer_stop"]
    if (start, stop) == (0, 1):
        return "-"
    text: str = row["text_pair"]
    return text[row["char_starts"][start] : row["char_stops"][stop - 1]]


def config(max_length: int = 16, groups: tuple[str, ...] = (), **changes: Any) -> Any:
    encoding = {"span": {"max_question": 4, "doc_stride": 3} | changes.pop("span", {})}
    return config_of("span", groups=groups, max_length=max_length, encode=encoding, **changes)


# --- windows by hand --------------------------------------------------------------------------


def windows(
    lengths: tuple[int, int], max_length: int, stride: int, target: tuple[int, int] = (-1, -1)
) -> Any:
    """Windows of one question, a token a character; `target` counts tokens of the context."""
    asked, size = lengths
    texts = ["q" * asked, "c" * size]
    tokens = tokens_of(texts)
    first, stop = (n + asked if n >= 0 else -1 for n in target)
    none = np.zeros(1, dtype=bool)
    targets = Targets(np.array([first]), np.array([stop]), none, none, none)
    return span_rows(
        tokens,
        np.array([[0, 1]]),
        np.array([0]),
        targets,
        SpanConfig(max_question=4, doc_stride=stride),
        max_length,
        Cutter(texts, tokens),
    )


def test_windows_of_ten_tokens() -> None:
    made = windows((2, 10), 10, 3, target=(4, 7))  # 5 tokens of the text a window
    assert (made.rows.starts[:, 1] - 2).tolist() == [0, 3, 6]
    assert (made.rows.stops[:, 1] - 2).tolist() == [5, 8, 10]
    assert made.rows.lengths().tolist() == [10, 10, 9]
    # [CLS] q q [SEP] stand before: token 4 of the text is token 4 + 1 of the second window.
    assert list(zip(made.answer_starts.tolist(), made.answer_stops.tolist(), strict=True)) == [
        (0, 1),
        (5, 8),
        (0, 1),
    ]
    # Scores of token 3: min(3, 1) + .05 and min(0, 4) + .05; of 4: 0.05 and 1.05; of 6: 1.05 and 0.04 ...
    flags = np.split(made.max_context, bounds(made.rows.lengths())[1:-1])
    assert [f.astype(int).tolist() for f in flags] == [
        [0, 0, 0, 0, 1, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 1, 0],
    ]
    assert made.rows.counters == {
        "questions_cut": 0,
        "windowed_questions": 1,
        "answers_widened": 0,
        "answers_in_no_window": 0,
    }


def test_of_equal_contexts_the_first_window_has_most() -> None:
    made = windows((1, 6), 8, 2)  # windows [0, 4) and [2, 6): tokens 2 and 3 lie alike in both
    flags = np.split(made.max_context, bounds(made.rows.lengths())[1:-1])
    assert [f.astype(int).tolist()[3:-1] for f in flags] == [[1, 1, 1, 0], [0, 1, 1, 1]]


def test_a_longer_window_counts_a_little_more() -> None:
    made = windows((1, 330), 304, 200)  # windows [0, 300) and [200, 330)
    first, second = np.split(made.max_context, bounds(made.rows.lengths())[1:-1])
    # 250: min(250, 49) + 3.00 against min(50, 79) + 1.30; 251: 51.00 against 52.30.
    assert first[3:][[249, 250, 251]].tolist() == [True, True, False]
    assert second[3:][[49, 50, 51]].tolist() == [False, False, True]


@pytest.mark.parametrize(("size", "count"), [(1, 1), (5, 1), (6, 2), (8, 2), (9, 3)])
def test_no_window_begins_behind_the_end(size: int, count: int) -> None:
    assert len(windows((2, size), 10, 3).rows) == count


def test_an_answer_wider_than_every_window_is_counted() -> None:
    made = windows((2, 10), 10, 3, target=(1, 9))
    assert made.answer_stops.tolist() == [1, 1, 1]
    assert made.rows.counters["answers_in_no_window"] == 1


def test_a_long_question_is_cut_and_leaves_the_text_its_room() -> None:
    made = windows((9, 20), 12, 5)
    assert made.rows.counters["questions_cut"] == 1
    assert made.rows.stops[0, 0] == 4
    assert (made.rows.stops - made.rows.starts)[:, 1].tolist() == [5, 5, 5, 5]


def test_c25_budgets() -> None:
    def check(length: int, asked: int, stride: int) -> None:
        Encode.check(config(length, span={"max_question": asked, "doc_stride": stride}), "")

    with pytest.raises(ConfigError, match=r"max_question is 64: a window would have -3 tokens"):
        check(64, 64, 16)
    with pytest.raises(ConfigError, match=r"doc_stride is 128, but .* 64 tokens has 61 tokens"):
        check(128, 64, 128)
    check(128, 64, 61)
    made = windows_of_100()
    starts = made.rows.starts[:, 1]
    assert (made.rows.stops - made.rows.starts)[:-1].tolist() == [[64, 61]] * (len(starts) - 1)
    assert set(np.diff(starts).tolist()) == {32}


def windows_of_100() -> Any:
    texts = ["q" * 100, "c" * 500]
    tokens = tokens_of(texts)
    none = np.zeros(1, dtype=bool)
    targets = Targets(np.array([-1]), np.array([-1]), none, none, none)
    settings_ = SpanConfig(max_question=64, doc_stride=32)
    return span_rows(
        tokens, np.array([[0, 1]]), np.array([0]), targets, settings_, 128, Cutter(texts, tokens)
    )


@pytest.mark.parametrize(
    ("context", "length", "stride", "want"),
    [
        # The family is tokens 3 to 7: [0, 7) would end inside it, so the next window begins where it ends.
        ("abc👨‍👩‍👧defg", 7, 5, [(0, 3), (3, 10), (8, 12)]),
        # [4, 12) would begin between e and its accent.
        ("abce\u0301defghij", 8, 4, [(0, 8), (3, 11), (7, 12)]),
        ("👨👨👨👨", 3, 2, [(0, 3), (2, 4)]),
    ],
)
def test_c27_cuts_move_back_to_whole_clusters(
    context: str, length: int, stride: int, want: list[tuple[int, int]]
) -> None:
    texts = ["q", context]  # a token a character
    tokens = tokens_of(texts)
    none = np.zeros(1, dtype=bool)
    made = span_rows(
        tokens,
        np.array([[0, 1]]),
        np.array([0]),
        Targets(np.array([-1]), np.array([-1]), none, none, none),
        SpanConfig(max_question=1, doc_stride=stride),
        length + 4,
        Cutter(texts, tokens),
    )
    found = zip(made.rows.starts[:, 1].tolist(), made.rows.stops[:, 1].tolist(), strict=True)
    assert [(a - 1, b - 1) for a, b in found] == want


def test_a_cluster_longer_than_a_window_is_cut_rather_than_looped_over() -> None:
    texts = ["q", "a" + "\u0301" * 30]
    tokens = tokens_of(texts)
    none = np.zeros(1, dtype=bool)
    made = span_rows(
        tokens,
        np.array([[0, 1]]),
        np.array([0]),
        Targets(np.array([-1]), np.array([-1]), none, none, none),
        SpanConfig(max_question=1, doc_stride=2),
        8,
        Cutter(texts, tokens),
    )
    assert made.rows.stops[-1, 1] == 32
    assert (np.diff(made.rows.starts[:, 1]) > 0).all()


# --- answers on tokens ------------------------------------------------------------------------


def targets(
    text: str, edges: list[tuple[int, int]], *answers: tuple[int, int], misaligned: str = "drop"
) -> tuple[int, int, bool, bool]:
    """Target of one question: tokens, located, widened; `edges` are the tokens' characters."""
    starts, stops = (np.array([e[i] for e in edges], np.int32) for i in (0, 1))
    tokens = Tokens(np.full(len(edges), 9, np.int32), starts, stops, np.array([0, len(edges)]))
    gold = Answers(
        np.array([a for a, _ in answers], np.int64),
        np.array([b for _, b in answers], np.int64),
        np.array([0, len(answers)]),
    )
    found = find_targets(Texts([text], bounds([len(text)])), tokens, np.array([0]), gold, misaligned)
    return int(found.starts[0]), int(found.stops[0]), bool(found.located[0]), bool(found.widened[0])


def test_answers_on_whole_tokens() -> None:
    text, edges = "ab cd, ef", [(0, 2), (3, 5), (5, 6), (7, 9)]
    assert targets(text, edges, (3, 5)) == (1, 2, True, False)
    assert targets(text, edges, (0, 9)) == (0, 4, True, False)
    assert targets(text, edges, (2, 6)) == (1, 3, True, False)  # a space at the edge
    assert targets(text, edges, (3, 7)) == (1, 3, True, False)
    assert targets(text, edges, (2, 3)) == (-1, -1, True, False)  # nothing but a space
    assert targets(text, edges, (-1, 1), (7, 9)) == (3, 4, True, False)  # the first that is known
    assert targets(text, edges, (-1, 1)) == (-1, -1, False, False)
    assert targets(text, edges) == (-1, -1, False, False)


def test_answers_inside_tokens() -> None:
    text, edges = "2010年3月", [(0, 4), (4, 5), (5, 6), (6, 7)]
    assert targets(text, edges, (2, 5)) == (-1, -1, True, False)
    assert targets(text, edges, (2, 5), misaligned="widen") == (0, 2, True, True)
    assert targets(text, edges, (1, 3), misaligned="widen") == (0, 1, True, True)
    # Another gold answer that lies on tokens is better than none.
    assert targets(text, edges, (2, 5), (5, 7)) == (2, 4, True, False)
    assert targets(text, edges, (5, 7), misaligned="widen") == (2, 4, True, False)


def test_tokens_that_hold_the_space_before_them_and_pieces_of_one_character() -> None:
    assert targets("ab cd", [(0, 2), (2, 5)], (3, 5)) == (1, 2, True, False)
    assert targets("ab cd", [(0, 3), (3, 5)], (0, 2)) == (0, 1, True, False)
    jamo = [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)]
    assert targets("a한b", jamo, (1, 2)) == (1, 4, True, False)
    assert targets("a한b", jamo, (0, 1)) == (0, 1, True, False)


# --- whole runs -------------------------------------------------------------------------------


def test_windows_and_answers_of_a_run(tmp_path: Path) -> None:
    context = "甲乙丙丁戊己庚辛壬癸子丑"
    encoding = {"span": {"max_question": 4, "doc_stride": 3}, **vocab(tmp_path, *context, *"谁在何处")}
    documents = [
        question("q1", "谁在", context, ("戊己", 4)),
        question("q2", "何处", context, is_impossible=True),
        question("q3", "谁在何处", context, ("癸子丑", 9), ("戊己", 4)),
    ]
    run = encode(tmp_path, config_of("span", max_length=12, encode=encoding), documents)
    assert_sound(run)
    assert spans(run) == [
        ("q1#0", "戊己"),
        ("q1#1", "戊己"),
        ("q1#2", "-"),
        ("q2#0", "-"),
        ("q2#1", "-"),
        ("q2#2", "-"),
        ("q3#0", "-"),
        ("q3#1", "-"),
        ("q3#2", "-"),
        ("q3#3", "癸子丑"),
    ]
    first = run.rows[1]
    assert first["input_ids"] == [2, 17, 18, 3, 8, 9, 10, 11, 12, 13, 14, 3]
    assert first["token_type_ids"] == [0] * 4 + [1] * 8
    assert first["char_starts"] == [0, 0, 1, 0, 3, 4, 5, 6, 7, 8, 9, 0]
    assert (first["answer_start"], first["answer_stop"]) == (5, 7)
    assert [r["is_impossible"] for r in run.rows] == [False] * 3 + [True] * 3 + [False] * 4
    assert run.rows[-1]["answers"] == ["癸子丑", "戊己"]
    assert run.rows[3]["answers"] == []
    assert run.counters["records"] == 3
    assert run.counters["rows"] == 10
    assert run.counters["windowed_questions"] == 3


def test_c01_only_questions_that_train_must_have_an_answer(tmp_path: Path) -> None:
    context = "甲公司成立于2010年。"
    encoding = vocab(tmp_path, *"甲公司成立于年。谁", "2010") | {"span": {"max_question": 4, "doc_stride": 3}}
    documents = [
        question("a", "谁", context, ("2010年", 6)),
        question("c", "谁", context, ("乙公司", -1)),
        question("d", "谁", context, ("乙公司", -1), ("公司", 1)),
        question("e", "谁", context, ("10年", 8)),
        document("f", "谁", pair=True, text_pair=context),  # of a test set
    ]
    train = encode(tmp_path / "train", config_of("span", max_length=24, encode=encoding), documents)
    assert_sound(train)
    assert spans(train) == [("a#0", "2010年"), ("d#0", "公司")]
    assert train.rejects == {"answer_not_in_context": 1, "answer_not_on_tokens": 1, "no_answers": 1}
    other = config_of("span", max_length=24, encode=encoding, input=HELD_OUT)
    held = encode(tmp_path / "held", other, documents)
    assert_sound(held)
    assert spans(held) == [("a#0", "2010年"), ("c#0", "-"), ("d#0", "公司"), ("e#0", "-"), ("f#0", "-")]
    assert held.counters["answers_not_on_tokens"] == 1
    assert held.rows[1]["answers"] == ["乙公司"]
    assert held.rows[4]["answers"] == [] and held.rows[4]["is_impossible"] is False
    wide = encoding | {"span": {"max_question": 4, "doc_stride": 3, "misaligned": "widen"}}
    widened = encode(tmp_path / "wide", config_of("span", max_length=24, encode=wide), documents)
    assert_sound(widened)
    assert spans(widened)[-1] == ("e#0", "2010年")
    assert widened.counters["answers_widened"] == 1
    metadata = read_metadata(open_shard(str(widened.folder / "train-00000-of-00001.arrow")).schema)
    assert metadata["misaligned"] == "widen"


def test_an_impossible_question_has_no_answer_whatever_is_given(tmp_path: Path) -> None:
    asked = question("q", "谁", "我在北京", ("北京", 2), is_impossible=True)
    assert spans(encode(tmp_path, config(), [asked])) == [("q#0", "-")]


def test_rejects_name_the_record_and_the_answer(tmp_path: Path) -> None:
    encoding = vocab(tmp_path, "甲", "谁", "2010") | {"span": {"max_question": 4, "doc_stride": 3}}
    documents = [question("e", "谁", "甲2010", ("10", 3)), question("ff", "\u200b", "甲", ("甲", 0))]
    run = encode(tmp_path, config_of("span", max_length=24, encode=encoding), documents)
    lines = (run.folder / "rejects" / "train-00000-of-00001.jsonl").read_text(encoding="utf-8").splitlines()
    assert '"reason": "no_tokens"' in lines[0] and '"byte": 2' in lines[0]
    assert "answer_not_on_tokens" in lines[1] and "found '10'" in lines[1] and "widen" in lines[1]


def test_every_column_group_follows_the_windows(tmp_path: Path) -> None:
    """Word, sentence and tree columns of a window are those of its words alone."""
    text = "我在北京。苹果很好。他们去了故宫。"
    words = [
        (0, 1),
        (1, 2),
        (2, 4),
        (4, 5),
        (5, 7),
        (7, 8),
        (8, 9),
        (9, 10),
        (10, 12),
        (12, 14),
        (14, 16),
        (16, 17),
    ]
    heads = [1, 1, 1, 1, 6, 6, 6, 6, 9, 9, 9, 9]
    row = question("q", "谁", text, ("北京", 2)) | {
        "sentence_starts_pair": [0, 5, 10],
        "sentence_stops_pair": [5, 10, 17],
        "word_starts_pair": [a for a, _ in words],
        "word_stops_pair": [b for _, b in words],
        "word_heads_pair": heads,
        "word_deprels_pair": ["root" if h == i else "dep" for i, h in enumerate(heads)],
        "word_pos_pair": ["X"] * 12,
    }
    encoding = vocab(tmp_path, *dict.fromkeys(text + "谁")) | {"span": {"max_question": 1, "doc_stride": 6}}
    made = config_of(
        "span", groups=ALL, max_length=11, encode=encoding, graph={"max_length": 32, "max_positions": 32}
    )
    run = encode(tmp_path, made, [row], triples="北京\t类别\t首都\n苹果\t类别\t水果\n故宫\t位于\t北京\n")
    assert_sound(run)
    # Windows [0, 7), [6, 13), [12, 17): the second begins with the second half of 苹果.
    second = run.rows[1]
    assert second["text_pair"] == text
    assert second["char_starts"][3:-1] == [6, 7, 8, 9, 10, 11, 12]
    assert second["word_index"] == [-1, 0, -1, 1, 2, 3, 4, 5, 5, 6, -1]
    assert second["word_heads"] == [0, 3, 3, 3, 3, 6, 6]
    assert [DEPRELS[d] for d in second["word_deprels"]] == [
        "root",
        "dep",
        "dep",
        "root",
        "dep",
        "dep",
        "root",
    ]
    assert second["sentence_index"] == [0, 1, 1, 1, 1, 2, 2]
    assert second["word_dfs_in"] == [0, 2, 3, 1, 4, 6, 5]
    assert second["word_dfs_out"] == [1, 3, 4, 5, 5, 7, 7]
    assert len(second["coarse_ids"]) == 3 + 7
    assert second["coarse_index"] == [0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9]
    # 苹果 is whole in the first window and cut in the second; 北京 and 故宫 are other windows' matter there.
    assert [len(r["branch_triples"]) for r in run.rows] == [2, 0, 1]
    assert run.counters["mentions"] == 4
    assert run.counters["dropped_anchor_cut"] == 1
    assert run.counters["mentions_grafted"] == 3


@pytest.mark.parametrize("match", ["longest", "words"])
def test_rows_do_not_depend_on_batches_chunks_or_who_else_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, match: str
) -> None:
    documents = []
    for i in range(12):
        rng = random.Random(i % 4)  # three questions a text
        context = "".join(
            rng.choice(["我在北京。", "苹果很好，", "Apple pie. ", "👨‍👩‍👧"]) for _ in range(12)
        )
        documents.append(question(f"q{i}", "他们在北京吗" * (1 + i % 2), context, (context[2:4], 2)))
        for name in ("sentence_starts", "sentence_stops", "word_starts", "word_stops", "word_heads"):
            documents[i][name + "_pair"] = documents[i % 4][name + "_pair"]
        documents[i]["word_deprels_pair"] = documents[i % 4]["word_deprels_pair"]
    made = config(32, ALL, span={"misaligned": "widen"}, graph={"match": match, "max_length": 64})
    want = encode(tmp_path / "1", made, documents)
    assert_sound(want)
    assert len(want.rows) > 40
    with monkeypatch.context() as patch:
        patch.setattr(stage_module, "CHUNK_ROWS", 3)
        patch.setattr(stage_module, "CHUNK_CHARS", 200)
        patch.setattr(module, "_TOGETHER", 50)
        other = encode(tmp_path / "2", made, documents, batch=5)
    assert want.rows == other.rows
    alone = [row for i, d in enumerate(documents) for row in encode(tmp_path / f"3{i}", made, [d]).rows]
    assert want.rows == alone


def test_texts_that_are_annotated_otherwise_are_kept_apart(tmp_path: Path) -> None:
    one = question("a", "谁", "我在北京", ("北京", 2))
    names = ("word_starts_pair", "word_stops_pair", "word_heads_pair", "word_deprels_pair", "word_pos_pair")
    values = ([0, 1, 2, 3], [1, 2, 3, 4], [0, 0, 0, 0], ["root", "dep", "dep", "dep"], ["X"] * 4)
    other = question("b", "谁", "我在北京", ("北京", 2)) | dict(zip(names, values, strict=True))
    run = encode(tmp_path, config(groups=("syntax",)), [one, other, one | {"doc_id": "c"}])
    assert_sound(run)
    assert run.rows[1]["word_heads"] == [0, 1, 1, 1, 1]
    assert [len(r["word_heads"]) for r in run.rows] == [3, 5, 3]


def test_equal_texts_are_tokenized_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(tmp_path, config())
    seen: list[str] = []
    tokenizer = type(stage._tools.tokenizer)
    real = tokenizer.encode_texts

    def spy(self: Any, texts: Any) -> Any:
        seen.extend(texts)
        return real(self, texts)

    monkeypatch.setattr(tokenizer, "encode_texts", spy)
    documents = [question(f"q{i}", "谁", "我在北京", ("北京", 2)) for i in range(5)]
    assert len(encode(tmp_path / "run", config(), documents).rows) == 5
    assert sorted(seen) == ["我在北京", "谁"]


def test_the_fingerprint_is_of_what_this_task_reads(tmp_path: Path) -> None:
    def of(task: str, **changes: Any) -> str:
        return make_stage(tmp_path, config_of(task, **changes)).fingerprint

    longer = {"span": {"doc_stride": 8}}
    assert of("span") != of("span", encode=longer)
    assert of("span") != of("span", input=HELD_OUT)
    assert of("seq2seq") != of("seq2seq", encode={"seq2seq": {"max_target": 8}})
    settings_ = make_stage(tmp_path, config_of("span")).settings()
    assert settings_["encode.span.doc_stride"] == 128
    assert not any(name.startswith(("encode.pretrain", "encode.seq2seq")) for name in settings_)


# --- anything at all --------------------------------------------------------------------------

CHARACTERS = st.sampled_from(
    [*"ab中国北京。！ \n1", "\u0301", "\u200b", "\u200d", "한", "👨", "🇨🇳", "\x00", "Apple"]
)
STRINGS = st.lists(CHARACTERS, max_size=60).map("".join)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(STRINGS, STRINGS, st.integers(0, 60), st.integers(1, 8)), min_size=1, max_size=4),
    st.integers(8, 24),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from(["drop", "widen"]),
    st.booleans(),
)
def test_any_question_gives_sound_windows(
    tmp_path_factory: pytest.TempPathFactory,
    asked: list[tuple[str, str, int, int]],
    length: int,
    longest: int,
    stride: int,
    misaligned: str,
    trains: bool,
) -> None:
    longest = min(longest, length - 4)
    stride = min(stride, length - 3 - longest)
    documents = [
        question(f"q{i}", text, context, (context[at : at + n], at) if context[at : at + n] else ("?", -1))
        for i, (text, context, at, n) in enumerate(asked)
    ]
    made = config_of(
        "span",
        groups=ALL,
        max_length=length,
        encode={"span": {"max_question": longest, "doc_stride": stride, "misaligned": misaligned}},
        input={} if trains else HELD_OUT,
    )
    Encode.check(made, "")
    run = encode(tmp_path_factory.mktemp("any"), made, documents)
    assert_sound(run)
    by_name = {d["doc_id"]: d for d in documents}
    names = {r["id"].split("#")[0] for r in run.rows}
    assert len(names) + sum(run.rejects.values()) == len(documents)
    if not trains:
        assert set(run.rejects) <= {"no_tokens"}
    for name, group in itertools.groupby(run.rows, lambda r: r["id"].split("#")[0]):
        rows = list(group)
        check_question(rows, by_name[name], length, misaligned)


def check_question(rows: list[dict[str, Any]], source: dict[str, Any], length: int, misaligned: str) -> None:
    assert [r["id"] for r in rows] == [f"{source['doc_id']}#{n}" for n in range(len(rows))]
    seen: dict[int, int] = {}
    place = 0
    every: list[tuple[int, int, int]] = []
    for row in rows:
        assert len(row["input_ids"]) <= length
        types, ids = row["token_type_ids"], row["input_ids"]
        inner = range(types.index(1), len(ids) - 1)
        tokens = [(ids[i], row["char_starts"][i], row["char_stops"][i]) for i in inner]
        # Where this window goes on among the tokens met so far: it overlaps their end or follows on it.
        place = next(
            p for p in range(place, len(every) + 1) if every[p : p + len(tokens)] == tokens[: len(every) - p]
        )
        assert every[place:] == tokens[: len(every) - place]
        every = every[:place] + tokens
        for offset, i in enumerate(inner):
            seen[place + offset] = seen.get(place + offset, 0) + row["is_max_context"][i]
        assert not any(flag for i, flag in enumerate(row["is_max_context"]) if i not in inner)
        if answer_of(row) != "-":
            wanted, found = strip(source["answers"][0]), strip(answer_of(row))
            assert found == wanted or (misaligned == "widen" and wanted in found)
    assert all(count == 1 for count in seen.values())
    assert sorted(seen) == list(range(len(every)))


def strip(text: str) -> str:
    """`text` without what no token holds at its edges."""
    return text.strip("\u0301\u200d\u200b\x00 \n")
