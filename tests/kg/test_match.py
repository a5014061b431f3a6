"""Mentions: leftmost-longest, at word boundaries of spaced scripts, never the subjects that are not allowed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.match import Matcher, automaton, code_points
from kg.match import leftmost as leftmost_module
from kg.match import matcher as match_module
from kg.match.automaton import Automaton
from kg.match.boundaries import inside_words
from kg.match.fold import Folding


class Subjects:
    """Some subjects, compiled; ids are indices into the sorted folded keys."""

    def __init__(self, *subjects: str, fold: Sequence[str] = ()) -> None:
        self.folding = Folding.build(fold)
        self.keys = sorted({self.folding.fold_text(subject) for subject in subjects})
        lengths = np.array([len(key) for key in self.keys], np.int64)
        self._columns = automaton.build(code_points("".join(self.keys)), lengths)

    def matcher(
        self, min_length: int = 1, stop: Sequence[str] = (), max_length: int | None = None
    ) -> Matcher:
        folded = [self.folding.fold_text(subject) for subject in stop]
        return Matcher(
            Automaton(self._columns),
            self.folding,
            len(self.keys),
            max(map(len, self.keys), default=0),
            min_length=min_length,
            max_length=max_length,
            stop=[self.keys.index(key) for key in folded if key in self.keys],
        )


def found(subjects: Subjects, text: str, **options: object) -> list[str]:
    mentions = subjects.matcher(**options).longest([text])  # type: ignore[arg-type]
    columns = (mentions.texts, mentions.starts, mentions.stops, mentions.subjects)
    assert all(column.dtype == np.int32 for column in columns)
    words = [text[a:b] for a, b in zip(mentions.starts.tolist(), mentions.stops.tolist(), strict=True)]
    keys = [subjects.keys[i] for i in mentions.subjects.tolist()]
    assert [subjects.folding.fold_text(word) for word in words] == keys
    return words


def test_c17_an_entity_with_digits_and_punctuation_matches_whole() -> None:
    graph = Subjects("糖类抗原19-9", "糖类", "抗原")
    assert found(graph, "查糖类抗原19-9升高") == ["糖类抗原19-9"]
    assert found(graph, "糖类抗原19-9") == ["糖类抗原19-9"]
    assert found(graph, "糖类抗原19-91") == ["糖类", "抗原"]
    assert found(graph, "糖类抗原19-9.5") == ["糖类", "抗原"]
    assert found(graph, "糖类抗原19-9。") == ["糖类抗原19-9"]


def test_c17_common_words_are_governed_by_stop_list_and_length() -> None:
    graph = Subjects("舒适", "舒适度", "很")
    assert found(graph, "很舒适") == ["很", "舒适"]
    assert found(graph, "很舒适", min_length=2) == ["舒适"]
    assert found(graph, "很舒适", min_length=2, stop=["舒适", "不在图里"]) == []
    assert found(graph, "很舒适", max_length=1) == ["很"]


def test_leftmost_longest_without_overlap() -> None:
    graph = Subjects("北京", "北京大学", "大学生", "学生")
    assert found(graph, "北京大学生") == ["北京大学"]
    assert found(graph, "北京大") == ["北京"]
    assert found(graph, "去北京北京大学生在北京") == ["北京", "北京大学", "北京"]


def test_a_stopped_subject_gives_way_to_the_next_longest() -> None:
    graph = Subjects("北京", "北京大学", "大学")
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
        ("９", "９．５", 0),
        ("９", "９﹒５", 0),
        ("５号", "３，５号", 0),
        ("５号", "３﹐５号", 0),
        ("5号", "3．5号", 0),
        ("5号", "３，5号", 1),
        ("９", "９．甲", 1),
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
def test_word_boundaries(subject: str, text: str, matches: int) -> None:
    assert found(Subjects(subject), text) == [subject] * matches


def test_text_ends_are_boundaries_and_empty_texts_have_no_mention() -> None:
    graph = Subjects("\u0301", "ab")
    assert found(graph, "") == []
    assert found(graph, "\u0301") == ["\u0301"]
    assert found(graph, "ab") == ["ab"]


def test_subjects_longer_than_the_first_look_are_found() -> None:
    long = "长" * 1000
    graph = Subjects(long, long[:64], long[:10], "长" * 64 + "短")
    assert [len(word) for word in found(graph, "短" + long + "长" * 70)] == [1000, 64]
    assert [len(word) for word in found(graph, "长" * 64 + "短")] == [65]
    assert [len(word) for word in found(graph, "长" * 999)] == [64] * 15 + [10] * 3


def test_a_huge_subject_does_not_slow_down_the_search() -> None:
    graph = Subjects("长文" * 2_000, "长文")
    text = "长短" * 50_000 + "长文"
    start = time.process_time()
    assert found(graph, text) == ["长文"]
    assert time.process_time() - start < 5


def test_mentions_never_cross_from_one_text_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Subjects("苹果", "果", "ab", "9", "甲", "s")
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


def test_no_text_at_all() -> None:
    mentions = Subjects("苹果").matcher().longest([])
    assert len(mentions.texts) == 0


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(ValueError, match="lone surrogate at character 1"):
        found(Subjects("苹果"), "a\ud800")


def words_found(
    subjects: Subjects, text: str, spans: Sequence[tuple[int, int]], **options: object
) -> list[tuple[str, str]]:
    starts, stops = (np.array([span[k] for span in spans], np.int64) for k in (0, 1))
    matcher = subjects.matcher(**options)  # type: ignore[arg-type]
    mentions = matcher.words([text], starts, stops, np.array([0, len(spans)]))
    columns = (mentions.starts.tolist(), mentions.stops.tolist(), mentions.subjects.tolist())
    return [(text[a:b], subjects.keys[k]) for a, b, k in zip(*columns, strict=True)]


def test_words_that_are_subjects() -> None:
    subjects = Subjects("苹果", "果", "apple")
    text, spans = "苹果 pineapple 果 苹果", [(0, 2), (3, 12), (13, 14), (15, 17)]
    assert words_found(subjects, text, spans) == [("苹果", "苹果"), ("果", "果"), ("苹果", "苹果")]
    assert words_found(subjects, text, spans, min_length=2) == [("苹果", "苹果")] * 2
    assert words_found(subjects, text, spans, max_length=1) == [("果", "果")]
    assert words_found(subjects, text, spans, stop=["苹果"]) == [("果", "果")]
    # A word that holds a subject is no mention: the segmentation decides. It decides on boundaries too.
    assert words_found(subjects, "苹果树", [(0, 3)]) == []
    assert words_found(subjects, "pineapple", [(4, 9)]) == [("apple", "apple")]


def test_words_of_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = Subjects("甲乙", "丙", "ab")
    texts = ["甲乙丙", "", "丙甲", "ab甲乙", "乙"]
    starts, stops = np.array([0, 2, 0, 1, 0, 2, 0]), np.array([2, 3, 1, 2, 2, 4, 1])
    offsets = np.array([0, 2, 2, 4, 6, 7])
    for group in (1, 4, 1 << 20):
        monkeypatch.setattr(match_module, "_GROUP_CHARS", group)
        mentions = subjects.matcher().words(texts, starts, stops, offsets)
        spans = zip(mentions.texts.tolist(), mentions.starts.tolist(), mentions.stops.tolist(), strict=True)
        assert [(k, texts[k][a:b]) for k, a, b in spans] == [
            (0, "甲乙"),
            (0, "丙"),
            (2, "丙"),
            (3, "ab"),
            (3, "甲乙"),
        ]


# --- folding ----------------------------------------------------------------------------------

EVERY = ("nfkc", "case", "simplified")


@pytest.mark.parametrize(
    ("subject", "text", "fold", "matches"),
    [
        ("iPhone", "买ＩＰＨＯＮＥ吧", ("nfkc", "case"), ["ＩＰＨＯＮＥ"]),
        ("iPhone", "买ＩＰＨＯＮＥ吧", ("nfkc",), []),
        ("iphone", "iPHONE5", ("case",), []),  # boundaries are those of the raw text
        ("綠茶", "喝绿茶、綠茶", ("simplified",), ["绿茶", "綠茶"]),
        ("绿茶", "喝绿茶、綠茶", (), ["绿茶"]),
        ("ﬁne", "fine ﬁne ﬁnes", ("nfkc",), ["fine", "ﬁne"]),
        ("i", "fi ﬁ", ("nfkc",), []),
        ("公斤㎏", "二公斤kg", ("nfkc",), ["公斤kg"]),
        ("café", "un cafe\u0301, café", ("nfkc",), ["cafe\u0301", "café"]),
        ("cafe", "un cafe\u0301, café", ("nfkc",), []),
        ("straße", "STRASSE Straße", EVERY, ["STRASSE", "Straße"]),
        ("가", "각가", ("nfkc",), ["가"]),  # jamo of another syllable are not whole characters
        ("㈱", "(株)㈱", ("nfkc",), ["(株)", "㈱"]),
        ("株", "㈱株", ("nfkc",), ["株"]),
    ],
)
def test_folding(subject: str, text: str, fold: tuple[str, ...], matches: list[str]) -> None:
    assert found(Subjects(subject, fold=fold), text) == matches


def test_lengths_are_those_of_the_raw_text() -> None:
    subjects = Subjects("㍿甲", "甲", fold=("nfkc",))  # ㍿ is four characters when folded
    assert found(subjects, "㍿甲 株式会社甲") == ["㍿甲", "株式会社甲"]
    assert found(subjects, "㍿甲 株式会社甲", max_length=2) == ["㍿甲", "甲"]
    assert found(subjects, "㍿甲 株式会社甲", min_length=3) == ["株式会社甲"]
    assert found(subjects, "㍿甲甲", stop=["株式会社甲"]) == ["甲", "甲"]


def test_words_are_folded() -> None:
    subjects = Subjects("Apple", "㍿", fold=EVERY)
    text = "㍿apple 株式会社ＡＰＰＬＥ"
    spans = [(0, 1), (1, 6), (7, 11), (11, 16)]
    assert [word for word, _ in words_found(subjects, text, spans)] == [
        "㍿",
        "apple",
        "株式会社",
        "ＡＰＰＬＥ",
    ]


# --- what is no mention, and why ---------------------------------------------------------------


def test_occurrences_say_why() -> None:
    subjects = Subjects("北京", "北京大学", "大学生", "京", "学", "Apple", "北京大学生活动中心")
    text = "北京大学生吃Apples。Apple"
    matcher = subjects.matcher(min_length=2, stop=["北京"], max_length=5)
    said = [(text[o.start : o.stop], o.why) for o in matcher.places(text).first()]
    assert said == [
        ("北京", "stopped"),
        ("北京大学", ""),
        ("京", "too_short"),
        ("大学生", "overlapped"),
        ("学", "too_short"),
        ("Apple", "inside_word"),
        ("Apple", ""),
    ]
    assert all(subjects.keys[o.subject] == text[o.start : o.stop] for o in matcher.places(text).first())
    long = subjects.matcher(max_length=5).places("北京大学生活动中心").first()
    assert [o.why for o in long if o.stop - o.start == 9] == ["too_long"]


def test_occurrences_among_words() -> None:
    subjects = Subjects("苹果", "果树", fold=EVERY)
    words = (np.array([0, 2]), np.array([2, 3]))
    said = [(o.start, o.stop, o.why) for o in subjects.matcher().places("蘋果树", words).first()]
    assert said == [(0, 2, ""), (1, 3, "overlapped")]


def test_millions_of_occurrences_are_counted_and_the_first_told() -> None:
    subjects = Subjects(*("啊" * k for k in range(1, 257)))
    text = "啊" * 5000
    start = time.process_time()
    places = subjects.matcher(min_length=2, max_length=200, stop=["啊啊"]).places(text)
    assert time.process_time() - start < 4
    every = {k: len(text) - k + 1 for k in range(1, 257)}
    assert places.counts() == {
        "": 25,
        "too_short": every[1],
        "stopped": every[2],
        "overlapped": sum(every[k] for k in range(3, 201)) - 25,
        "too_long": sum(every[k] for k in range(201, 257)),
    }
    told = subjects.matcher(min_length=2).places(text).first(3)
    assert [(o.start, o.stop, o.why) for o in told] == [
        (0, 1, "too_short"), (0, 2, "overlapped"), (0, 3, "overlapped"),
    ]  # fmt: skip
    assert "" not in places.others().counts() and len(places.others().why) == len(places.why) - 25


@pytest.mark.parametrize("fold", [(), ("case",)])
def test_no_step_is_made_past_the_longest_mention(fold: tuple[str, ...]) -> None:
    subjects = Subjects(*("啊" * k for k in range(1, 60)), fold=fold)
    matcher = subjects.matcher(max_length=4)
    with mock.patch.object(Automaton, "step", autospec=True, side_effect=Automaton.step) as step:
        found = matcher.longest(["啊" * 100])
    assert (found.stops - found.starts == 4).all() and len(found.stops) == 25
    assert step.call_count <= 4


# --- against loops ----------------------------------------------------------------------------

alphabet = "甲乙丙ab1., -あ가"
folding_alphabet = "甲綠绿aAａ1ﬁfi㍿株式가\u0301e\u00e9."


def loop(
    text: str, subjects: Subjects, least: int, most: int | None, stop: list[str]
) -> list[tuple[int, int]]:
    """Leftmost-longest mentions, character by character."""
    inside = inside_words(code_points(text), np.zeros(min(1, len(text)), np.int64))
    stopped = {subjects.folding.fold_text(word) for word in stop}
    mentions, start = [], 0
    while start < len(text):
        for end in range(len(text), start, -1):
            key = subjects.folding.fold_text(text[start:end])
            long_enough = least <= end - start <= (most or len(text))
            if (
                key in subjects.keys
                and key not in stopped
                and long_enough
                and not (inside[start] | inside[end])
            ):
                mentions.append((start, end))
                start = end
                break
        else:
            start += 1
    return mentions


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_equal_to_a_loop(data: st.DataObject) -> None:
    fold = data.draw(st.sampled_from([(), ("nfkc",), EVERY]))
    letters = st.text(alphabet if not fold else folding_alphabet, max_size=20)
    words = letters.filter(bool).map(lambda text: text[:5])
    chosen = data.draw(st.lists(words, min_size=1, max_size=8, unique=True))
    texts = data.draw(st.lists(letters, max_size=6))
    least, most = data.draw(st.integers(1, 3)), data.draw(st.none() | st.integers(1, 4))
    stop = data.draw(st.lists(st.sampled_from(chosen), max_size=2))
    subjects = Subjects(*chosen, fold=fold)
    matcher = subjects.matcher(least, stop, most)
    mentions = matcher.longest(texts)
    spans = list(zip(mentions.texts.tolist(), mentions.starts.tolist(), mentions.stops.tolist(), strict=True))
    expected = [(k, a, b) for k, text in enumerate(texts) for a, b in loop(text, subjects, least, most, stop)]
    assert spans == expected
    for k, text in enumerate(texts):
        taken = [(o.start, o.stop) for o in matcher.places(text).first() if not o.why]
        assert taken == [(a, b) for t, a, b in expected if t == k]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=40), st.sampled_from([0, 2, 1000]))
def test_spans_are_taken_from_left_to_right(spans: list[tuple[int, int]], few: int) -> None:
    spans = sorted({start: (start, start + length) for start, length in spans}.values())
    taken, end = [], 0
    for index, (start, stop) in enumerate(spans):
        if start >= end:
            taken.append(index)
            end = stop
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leftmost_module, "_FEW", few)
        patch.setattr(leftmost_module, "_MANY_ROUNDS", 0 if few else 256)
        starts, stops = (np.array([span[k] for span in spans], np.int64) for k in (0, 1))
        assert leftmost_module.leftmost(starts, stops, 60).tolist() == taken


def test_one_long_chain_of_mentions_takes_no_longer() -> None:
    text = "哈" * 300_000
    subjects = Subjects("哈哈", "哈哈哈")
    start = time.process_time()
    assert len(found(subjects, text)) == 100_000
    assert time.process_time() - start < 5
