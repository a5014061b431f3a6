"""Sentence rules, one line a rule, and what holds for any text."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.annotate.sentences import split_sentences, split_texts
from tests.pipelines.literal_sentences import literal_cuts


def split(text: str, language: str) -> list[str]:
    starts, stops = split_sentences(text, language)
    return [text[a:b] for a, b in zip(starts, stops, strict=True)]


def pieces(marked: str) -> tuple[str, list[str]]:
    """`A。|B。` -> the text and the sentences that `|` marks; whitespace round `|` is the text's."""
    return marked.replace("|", ""), [p.strip() for p in marked.split("|")]


@pytest.mark.parametrize(
    "marked",
    [
        # ends
        "他来了。|她走了！|真的吗？|好",
        "好！！！|什么？！|好。。。",
        "他走了……|她来了…|好",
        "步行很近。|4。酒店好。| ２。干净。|二.便宜。|得了第1。|好",  # the number of an item
        "Ｔ３７.０℃，共３.５元。|好的.|２楼在３.西边",  # full-width numbers
        "一行|\n二行|\r\n三行|\u2028四行",
        # what follows the end belongs to it
        "“你好。”|他说。",
        "「去『北京。』」|好",
        "你好。”|他说",  # a closing quote without its opening one
        "他说：“你好。我走了。”|然后呢",
        # what does not end a sentence
        "今天，明天；后天：都好——是的",
        "“你好！”，他说。",
        "说了……——什么",
        "他（真的！）走了。|好",
        "《你好！》是书。|《谁？》也是",
        "他【好！】的。|好",
        # a bracket that is a sentence of its own
        "我走了。|（他没来。）|她来了。",
        # open and never closed: plain text
        "（没有闭合。|好的。|是吗？",
        "“没有闭合。|\n好的”。|是吗？",
        # straight quotes open and close
        '他走了。|"你好。我来了。"|她说。|好',
        '5"的屏。|很好。|大',
        # dots
        "圆周率是3.14，共1,234.5元。|好",
        "很好.|我喜欢。|见www.a.com和a.pdf。|好",
        "不错...|就是贵",
        "见http://a.com/b?x=1&y!z。|好",
        "He said hello.| 然后走了。|Dr. Wang 来了。|U.S. 也是",
    ],
)
def test_chinese_rules(marked):
    text, expected = pieces(marked)
    assert split(text, "zh") == expected


@pytest.mark.parametrize("fill", [10, 199, 200, 400])
def test_a_far_bracket_does_not_swallow_the_text(fill):
    text = "（甲。" + "乙" * (fill - 2) + "）。丙"
    assert len(split(text, "zh")) == (2 if fill < 200 else 3)


@pytest.mark.parametrize(
    "marked",
    [
        'He came.| She left!| Did she?| 3 men.| "Yes."| (Well.)| Then …| Good',
        "Dr. Smith met Mr. J. K. Rowling.| OK",
        "The U.S. Government said so.| He left the U.S.| He did",
        "e.g. This, i.e. That, cf. Fig. 2 and No. 5 of vol. IV.| No.| I do not",
        "It costs 3.14 or 1,234.5 at www.a.com, see a.pdf.| In 1999.| Then",
        "Acme Inc. Europe.| He left Acme Inc.| The end",
        '"What?" he asked.| "Go!"| She went.',
        "Well...  pretty good.| Well...| Good",
        "Yahoo! is.| See",
        "1. Open the file.| 2. Close it.| A. Yes",
        "A wrapped\nline goes on.|\nafter the end| \n\nA new\n paragraph| \n \n\nhere",
        "He met Dr.\nSmith there",
        "说。|Yes.| 好",
        "Vitamin C.| The next",
        "glued.Text is left",
    ],
)
def test_english_rules(marked):
    text, expected = pieces(marked)
    assert split(text, "en") == expected
    assert split(text, "de") == expected  # other languages: the same rules


def test_c11_offsets_count_in_the_document():
    text = "Well...  pretty good.\n\nNext one."
    starts, stops = split_sentences(text, "en")
    assert (starts, stops) == ([0, 23], [21, 32])
    assert text[23:27] == "Next"


ALPHABET = st.one_of(
    st.sampled_from(
        [
            *list("。！？!?….，；：—“”‘’「」（）()《》【】\"' \n\r\t\u2028\u3000\u200b甲乙aB1"),
            "Dr.",
            "U.S.",
            "...",
            "\n\n",
        ]
    ),
    st.characters(exclude_categories=["Cs"]),
)


@given(st.lists(ALPHABET, max_size=80).map("".join), st.sampled_from(["zh", "en", "fr"]))
def test_sentences_cover_all_but_whitespace(text, language):
    starts, stops = split_sentences(text, language)
    at = 0
    for start, stop in zip(starts, stops, strict=True):
        assert at <= start < stop <= len(text)
        assert not text[at:start].strip()
        assert not text[start].isspace() and not text[stop - 1].isspace()
        at = stop
    assert not text[at:].strip()


@given(st.lists(ALPHABET, max_size=80).map("".join))
def test_chinese_sentences_never_span_lines(text):
    assert not any(re.search("[\n\r\u2028]", s) for s in split(text, "zh"))


@pytest.mark.parametrize("unit", ["(", "“", "。", ".", ". ", "\n ", '" ', "“。", "a.b.", " "])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_hostile_text_takes_linear_time(unit, language):
    import time

    text = unit * (1_000_000 // len(unit))
    begin = time.perf_counter()
    split_sentences(text, language)
    assert time.perf_counter() - begin < 20  # minutes if it were quadratic


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_sentence_may_be_a_line(language: str) -> None:
    """BERT's files: a sentence a line, whatever its punctuation. Only LF and CRLF end a line."""
    text = "Thanks,\nSean \r\n\n  One. Two.\u2028三。四\n"
    starts, stops = split_sentences(text, language, lines=True)
    assert [text[a:b] for a, b in zip(starts, stops, strict=True)] == [
        "Thanks,",
        "Sean",
        "One. Two.\u2028三。四",
    ]


# --- many texts at once ---------------------------------------------------------------------------

MARKS = st.sampled_from([*'。！？!?.….，,;:-/=&甲乙aB1２一“”‘’（）()《》"＂[]{} \n', "..", "...", "。。"])
RUNS = st.one_of(MARKS, MARKS, ALPHABET)


def hold_to_the_letter(texts: list[str]) -> None:
    starts, stops, offsets = (array.tolist() for array in split_texts(texts, "zh"))
    assert len(offsets) == len(texts) + 1
    for text, first, last in zip(texts, offsets, offsets[1:], strict=False):
        cuts = [0, *literal_cuts(text), len(text)]
        expected = [text[a:b].strip() for a, b in pairwise(cuts)]
        found = [text[a:b] for a, b in zip(starts[first:last], stops[first:last], strict=True)]
        assert found == [sentence for sentence in expected if sentence], text


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(RUNS, max_size=40).map("".join), max_size=6))
def test_texts_at_once_are_split_as_one_by_one(texts: list[str]) -> None:
    hold_to_the_letter(texts)


@given(st.lists(st.lists(ALPHABET, max_size=40).map("".join), max_size=6), st.sampled_from(["zh", "en"]))
@pytest.mark.parametrize("lines", [False, True])
def test_texts_know_nothing_of_each_other(lines: bool, texts: list[str], language: str) -> None:
    starts, stops, offsets = (array.tolist() for array in split_texts(texts, language, lines=lines))
    alone = [split_sentences(text, language, lines=lines) for text in texts]
    spans = list(pairwise(offsets))
    assert [(starts[a:b], stops[a:b]) for a, b in spans] == alone


def test_real_texts_are_split_to_the_letter(real_data: Path) -> None:
    reviews = (real_data / "kbert/chnsenticorp/dev.tsv").read_text(encoding="utf-8").split("\n")
    abstracts = (real_data / "clue/csl.jsonl").read_text(encoding="utf-8").splitlines()[:500]
    hold_to_the_letter(reviews + ["\n".join(reviews)] + [json.loads(line)["abst"] for line in abstracts])
