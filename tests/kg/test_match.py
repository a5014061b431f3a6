"""Mentions: leftmost-longest, at word boundaries of spaced scripts, never the subjects that are not allowed."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import KnowledgeGraph
from kg import match as match_module
from kg.boundaries import inside_words
from kg.prefilter import code_points
from tests.kg.handmade import graph_of
from tests.parity.kbert_reference import longest_mentions


def graph_with(folder: Path, *subjects: str) -> KnowledgeGraph:
    return graph_of(folder, *(f"{subject}\t类\t对象{i}" for i, subject in enumerate(subjects)))


def found(graph: KnowledgeGraph, text: str, **options: object) -> list[str]:
    starts, stops, ids = graph.longest_mentions(text, **options)  # type: ignore[arg-type]
    assert starts.dtype == stops.dtype == ids.dtype == np.int32
    words = [text[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
    assert words == [graph.subject_text(i) for i in ids.tolist()]
    return words


def test_c17_an_entity_with_digits_and_punctuation_matches_whole(tmp_path: Path) -> None:
    graph = graph_with(tmp_path, "糖类抗原19-9", "糖类", "抗原")
    assert found(graph, "查糖类抗原19-9升高") == ["糖类抗原19-9"]
    assert found(graph, "糖类抗原19-9") == ["糖类抗原19-9"]
    assert found(graph, "糖类抗原19-91") == ["糖类", "抗原"]
    assert found(graph, "糖类抗原19-9.5") == ["糖类", "抗原"]
    assert found(graph, "糖类抗原19-9。") == ["糖类抗原19-9"]


def test_c17_common_words_are_governed_by_stop_list_and_length_and_reported(tmp_path: Path) -> None:
    graph = graph_with(tmp_path, "舒适", "舒适度", "很")
    assert found(graph, "很舒适") == ["很", "舒适"]
    assert found(graph, "很舒适", min_length=2) == ["舒适"]
    assert found(graph, "很舒适", min_length=2, stop=["舒适", "不在图里"]) == []
    _, _, ids = graph.longest_mentions("很舒适，舒适")
    assert graph.hits(ids) == [("舒适", 2), ("很", 1)]


def test_leftmost_longest_without_overlap(tmp_path: Path) -> None:
    graph = graph_with(tmp_path, "北京", "北京大学", "大学生", "学生")
    assert found(graph, "北京大学生") == ["北京大学"]
    assert found(graph, "北京大") == ["北京"]
    assert found(graph, "去北京北京大学生在北京") == ["北京", "北京大学", "北京"]


def test_a_stopped_subject_gives_way_to_the_next_longest(tmp_path: Path) -> None:
    graph = graph_with(tmp_path, "北京", "北京大学", "大学")
    assert found(graph, "北京大学", stop=["北京大学"]) == ["北京", "大学"]


@pytest.mark.parametrize(
    ("subject", "text", "matches"),
    [
        ("Apple", "Pineapple", 0),
        ("Apple", "PineApple", 0),
        ("Apple", "Apples", 0),
        ("Apple", "Apple2", 0),
        ("Apple", "Apple's Apple-Apple.Apple", 4),
        ("Apple", "吃Apple吧", 1),
        ("Apple", "apple", 0),  # characters as they are
        ("apple", "ａpple", 0),
        ("New York", "in New York.", 1),
        ("New York", "New Yorker", 0),
        ("甲型1", "甲型12", 0),
        ("甲型1", "甲型1,2", 0),
        ("甲型1", "甲型1，2", 1),
        ("甲型1", "甲型1.", 1),
        ("1号", "21号", 0),
        ("1号", "第1号", 1),
        ("5号", "3.5号", 0),
        ("战争", "世界战争史", 1),
        ("МИР", "МИРОВОЙ", 0),
        ("МИР", "МИР!", 1),
        ("서울", "서울에서", 1),  # particles are glued to Korean nouns
        ("トヨタ", "トヨタ車", 1),
        ("กรุง", "กรุงเทพ", 1),
        ("か", "か\u3099", 0),  # が in two code points
        ("cafe", "cafe\u0301", 0),
        ("cafe\u0301", "un cafe\u0301 noir", 1),
        ("cafe\u0301", "cafe\u0301s", 0),
        ("葛", "葛\U000e0100", 0),  # a variation sequence is one character
        ("葛\U000e0100", "葛\U000e0100A", 1),
        ("👩", "👩👩", 2),
        ("👩", "👩\u200d👧", 0),
        ("👧", "👩\u200d👧", 0),
        ("👍", "👍🏽", 0),
        ("...", "好...吧", 1),
        ("。", "甲。乙", 1),
        ("\x00", "a\x00b", 1),
    ],
)
def test_word_boundaries(tmp_path: Path, subject: str, text: str, matches: int) -> None:
    assert found(graph_with(tmp_path, subject), text) == [subject] * matches


def test_text_ends_are_boundaries_and_empty_texts_have_no_mention(tmp_path: Path) -> None:
    graph = graph_with(tmp_path, "\u0301", "ab")
    assert found(graph, "") == []
    assert found(graph, "\u0301") == ["\u0301"]
    assert found(graph, "ab") == ["ab"]


def test_subjects_longer_than_the_first_look_are_found(tmp_path: Path) -> None:
    long = "长" * 1000
    graph = graph_with(tmp_path, long, long[:64], long[:10], "长" * 64 + "短")
    assert [len(word) for word in found(graph, "短" + long + "长" * 70)] == [1000, 64]
    assert [len(word) for word in found(graph, "长" * 64 + "短")] == [65]
    assert [len(word) for word in found(graph, "长" * 999)] == [64] * 15 + [10] * 3


def test_a_huge_subject_does_not_slow_down_the_search(tmp_path: Path) -> None:
    graph = graph_with(tmp_path, "长文" * 500_000, "长文")
    text = "长短" * 50_000 + "长文"
    start = time.process_time()
    assert found(graph, text) == ["长文"]
    assert time.process_time() - start < 5


def test_mentions_never_cross_from_one_text_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_with(tmp_path, "苹果", "果", "ab", "9", "甲", "s")
    texts = [
        "我爱苹",
        "果树",
        "",
        "苹果",
        "xa",
        "b",
        "ab",
        "",
        "",
        "9",
        ".9",
        "9.",
        "9",
        "e",
        "\u0301s",
        "甲\u200d",
        "甲",
    ]
    expected = [
        (1, "果"),
        (3, "苹果"),
        (6, "ab"),
        (9, "9"),
        (10, "9"),
        (11, "9"),
        (12, "9"),
        (14, "s"),
        (16, "甲"),
    ]
    for group in (1, 3, 1 << 20):
        monkeypatch.setattr(match_module, "_GROUP_CHARS", group)
        mentions = graph.matcher().longest(texts)
        spans = zip(mentions.texts.tolist(), mentions.starts.tolist(), mentions.stops.tolist(), strict=True)
        assert [(k, texts[k][a:b]) for k, a, b in spans] == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text("甲a1.,\u0301\u200d👍🏽", max_size=5), max_size=8))
def test_boundaries_of_a_text_do_not_depend_on_its_neighbours(texts: list[str]) -> None:
    lengths = np.array([len(text) for text in texts], np.int64)
    starts = np.cumsum(lengths) - lengths
    together = inside_words(code_points("".join(texts)), starts[lengths > 0])
    for text, start in zip(texts, starts.tolist(), strict=True):
        alone = inside_words(code_points(text), np.zeros(min(1, len(text)), np.int64))
        assert together[start : start + len(text)].tolist() == alone[:-1].tolist()


def test_no_text_at_all(tmp_path: Path) -> None:
    mentions = graph_with(tmp_path, "苹果").matcher().longest([])
    assert len(mentions.texts) == 0


def test_lone_surrogates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lone surrogate at character 1"):
        graph_with(tmp_path, "苹果").longest_mentions("a\ud800")


def test_words_that_are_subjects(tmp_path: Path) -> None:
    graph = graph_with(tmp_path, "苹果", "果", "apple")
    text = "苹果 pineapple 果 苹果"
    starts, stops = np.array([0, 3, 13, 15]), np.array([2, 12, 14, 17])
    a, b, ids = graph.word_mentions(text, starts, stops)
    assert [(text[i:j], graph.subject_text(k)) for i, j, k in zip(a, b, ids, strict=True)] == [
        ("苹果", "苹果"),
        ("果", "果"),
        ("苹果", "苹果"),
    ]
    assert graph.word_mentions(text, starts, stops, min_length=2)[0].tolist() == [0, 15]
    assert graph.word_mentions(text, starts, stops, stop=["苹果"])[0].tolist() == [13]
    # A word that holds a subject is no mention: the segmentation decides.
    assert graph.word_mentions("苹果树", np.array([0]), np.array([3]))[0].tolist() == []


alphabet = "甲乙丙ab1., -あ가"


@settings(max_examples=80, deadline=None)
@given(
    subjects=st.lists(
        st.text(alphabet, min_size=1, max_size=5).filter(lambda s: s == s.strip()),
        min_size=1,
        max_size=8,
        unique=True,
    ),
    texts=st.lists(st.text(alphabet, max_size=20), max_size=6),
    min_length=st.integers(1, 3),
    data=st.data(),
)
def test_equal_to_a_loop(
    subjects: list[str],
    texts: list[str],
    min_length: int,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    graph = graph_with(tmp_path_factory.mktemp("kg"), *subjects)
    stop = data.draw(st.frozensets(st.sampled_from(subjects), max_size=2))
    table: dict[str, list[tuple[str, int]]] = {subject: [] for subject in subjects}
    mentions = graph.matcher(min_length, stop).longest(texts)
    spans = list(zip(mentions.texts.tolist(), mentions.starts.tolist(), mentions.stops.tolist(), strict=True))
    expected = [
        (k, a, b) for k, text in enumerate(texts) for a, b in longest_mentions(text, table, min_length, stop)
    ]
    assert spans == expected
