"""ConceptNet's assertions: both ends in the language, words without their part of speech."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.errors import GraphError
from tests.kg.read.reading import WHITE, Slow, blocks_of, read

NAME = "conceptnet-assertions-5.7.0.csv"


def line(relation: str, start: str, end: str) -> str:
    return (
        f'/a/[{relation},{start},{end}]\t{relation}\t{start}\t{end}\t{{"weight": 1.0, "surfaceText": null}}\n'
    )


def test_the_words_of_one_language() -> None:
    content = "".join(
        [
            line("/r/IsA", "/c/en/apple_pie/n/wn/food", "/c/en/dish"),
            line("/r/Synonym", "/c/en/apple", "/c/zh/苹果"),
            line("/r/ExternalURL", "/c/en/apple", "http://dbpedia.org/resource/Apple"),
            line("/r/dbpedia/genre", "/c/en/band/n", "/c/en/rock/n"),
            line("/r/IsA", "/c/english/a", "/c/en/b"),
            line("/r/IsA", "/c/fr/a", "/c/de/b"),
        ]
    )
    rows, counts, rejects = read(content.encode(), NAME, language="en")
    assert rows == [("apple pie", "IsA", "dish", 1), ("band", "genre", "rock", 4)]
    assert counts.left_out == {"other_language": 3, "not_a_concept": 1}
    assert rejects == []
    rows, _, _ = read(content.replace("/c/en", "/c/zh").encode(), NAME, language="ZH")
    assert [row[3] for row in rows] == [1, 2, 4]


def test_a_language_has_to_be_named() -> None:
    with pytest.raises(GraphError, match=r"conceptnet-assertions.*needs `language`.*language: en"):
        read(line("/r/IsA", "/c/en/a", "/c/en/b").encode(), NAME)


def test_malformed_lines() -> None:
    content = "".join(
        [
            line("IsA", "/c/en/a", "/c/en/b"),
            line("/r/", "/c/en/a", "/c/en/b"),
            line("/r/IsA", "/c/en/", "/c/en/b"),
            line("/r/IsA", "/c/en/a", "/c/en/_"),
            line("/r/IsA", "", "/c/en/b"),
            line("/r/IsA", "/c/en/a\x00", "/c/en/b"),
            "/r/IsA\t/c/en/a\t/c/en/b\n",
            line("/r/IsA", "/c/en", "/c/en/b"),
        ]
    )
    rows, counts, rejects = read(content.encode(), NAME, language="en")
    assert rows == []
    assert counts.left_out == {"not_a_concept": 1}
    assert [(r.line, r.reason) for r in rejects] == [
        (1, "bad_syntax"),
        (2, "bad_syntax"),
        (3, "empty_subject"),
        (4, "empty_object"),
        (5, "empty_subject"),
        (6, "control_character"),
        (7, "wrong_field_count"),
    ]


def slow_conceptnet(content: bytes) -> Slow:
    slow = Slow()
    for number, text in slow.lines(content):
        fields = [field.strip(WHITE) for field in text.split("\t")]
        if len(fields) != 5:
            slow.rejected.append((number, "wrong_field_count"))
            continue
        relation, start, end = fields[1].rstrip("/"), fields[2], fields[3]
        whole = Slow()
        whole.triple(number, start, relation, end)
        if whole.rejected:
            slow.rejected += whole.rejected
        elif not relation.startswith("/r/"):
            slow.rejected.append((number, "bad_syntax"))
        elif any(
            len(parts) < 4 or parts[:2] != ["", "c"] or not parts[2]
            for parts in (start.split("/"), end.split("/"))
        ):
            slow.left_out["not_a_concept"] += 1
        elif start.split("/")[2] != "en" or end.split("/")[2] != "en":
            slow.left_out["other_language"] += 1
        else:
            terms = [uri.split("/")[3].replace("_", " ").strip(WHITE) for uri in (start, end)]
            slow.triple(number, terms[0], relation.split("/")[-1], terms[1])
    return slow


uris = st.lists(
    st.sampled_from(["/c/", "en", "/", "a", "_", "/r/", "zh", "é", " ", "\x07", "http:"]), max_size=6
).map("".join)
ends = uris | st.sampled_from(["/c/en/a_b/n", "/c/en/c", "/c/zh/乙", "http://a"])
relations = uris | st.sampled_from(["/r/IsA", "/r/x/y/", "/r/"])


@settings(max_examples=300, deadline=None)
@given(
    lines=st.lists(
        st.tuples(relations, ends, ends).map(lambda t: line(*t)) | st.sampled_from(["\n", "#\n", "a\tb\n"])
    ),
    block=st.integers(1, 200),
)
def test_blocks_equal_a_loop_over_lines(lines: list[str], block: int) -> None:
    content = "".join(lines).encode()
    with blocks_of(block):
        found = read(content, NAME, language="en")
    slow_conceptnet(content).check(found)
