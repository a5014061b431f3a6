"""CoNLL-U: which lines are words, where they stand in the text, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.conllu import ConlluError, ConlluSentence, parse_conllu, read_conllu

UD = Path(__file__).parents[2].parent / "shared/data/ud"


def row(name: str, form: str, head: str = "_", deprel: str = "_", misc: str = "_", upos: str = "_") -> str:
    return "\t".join((name, form, "_", upos, "_", "_", head, deprel, "_", misc))


def one(text: str) -> ConlluSentence:
    (sentence,) = parse_conllu(text.splitlines(keepends=True))
    return sentence


DONT_GO = "\n".join(
    (
        "# sent_id = a",
        "# text = Don't go.",
        row("1-2", "Don't"),
        row("1", "Do", "3", "aux", upos="AUX"),
        row("2", "n't", "3", "advmod", upos="PART"),
        row("3", "go", "0", "root", "SpaceAfter=No", upos="VERB"),
        row("3.1", "there"),
        row("4", ".", "3", "punct", upos="PUNCT"),
    )
)


def spans(sentence: ConlluSentence) -> list[tuple[int, int]]:
    return list(zip(sentence.starts, sentence.stops, strict=True))


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n\n"])
def test_c28_ranges_and_empty_nodes(end: str) -> None:
    sentence = one(DONT_GO + end)
    assert sentence.forms == ("Do", "n't", "go", ".")
    assert sentence.heads == (2, 2, 2, 2)  # C28 counts words from 1 and the root as 0: [3, 3, 0, 3]
    assert sentence.deprels == ("aux", "advmod", "root", "punct")
    assert sentence.upos == ("AUX", "PART", "VERB", "PUNCT")
    assert spans(sentence) == [(0, 2), (2, 5), (6, 8), (8, 9)]
    assert sentence.spaces == (False, True, False, False)
    assert (sentence.empty_nodes, sentence.multiword_tokens, sentence.unsplit_multiwords) == (1, 1, 0)
    assert sentence.has_parse and sentence.sent_id == "a" and not sentence.warnings


def test_c28_text_is_rebuilt_when_missing() -> None:
    sentence = one(DONT_GO.replace("# text = Don't go.\n", ""))
    assert sentence.text == "Don't go."
    assert spans(sentence) == [(0, 2), (2, 5), (6, 8), (8, 9)]


def test_c28_crlf() -> None:
    crlf = (DONT_GO + "\n\n" + DONT_GO).replace("\n", "\r\n").encode()
    first, second = parse_conllu(crlf.splitlines(keepends=True))
    assert first.text == second.text == "Don't go."
    assert first.deprels == second.deprels and second.line == 10


@pytest.mark.parametrize("with_word_line", [True, False])
def test_c28_a_range_over_one_word_is_one_word(with_word_line: bool) -> None:
    rows = [row(str(i), w, "5" if i != 5 else "0", "dep") for i, w in enumerate(["a", "b", "c", "d"], 1)]
    rows.append(row("5-5", "x", "_" if with_word_line else "0", "root"))
    if with_word_line:
        rows.append(row("5", "x", "0", "root"))
    rows.append(row("6", "y", "5", "dep"))
    sentence = one("\n".join(rows))
    assert sentence.forms == ("a", "b", "c", "d", "x", "y")
    assert sentence.heads == (4, 4, 4, 4, 4, 4)
    assert spans(sentence)[4:] == [(8, 9), (10, 11)]
    assert sentence.multiword_tokens == 0
    (warning,) = sentence.warnings
    assert "5-5" in warning and "line 5" in warning


def test_c28_no_head_keeps_the_words_without_a_parse() -> None:
    sentence = one("\n".join((row("1", "a", "2", "dep"), row("2", "b"), row("3", "c", "0", "root"))))
    assert sentence.forms == ("a", "b", "c")
    assert sentence.heads == (1, -1, 2) and sentence.deprels == ("dep", "", "root")
    assert not sentence.has_parse


def test_c28_a_form_may_hold_a_space() -> None:
    text = "\n".join(
        ("# text = about 1 000 francs", row("1", "about"), row("2", "1 000"), row("3", "francs"))
    )
    assert spans(one(text)) == [(0, 5), (6, 11), (12, 18)]


def test_c28_a_range_its_words_do_not_spell_gives_each_word_the_whole_span() -> None:
    text = "\n".join(("# text = au lit", row("1-2", "au"), row("1", "à"), row("2", "le"), row("3", "lit")))
    sentence = one(text)
    assert spans(sentence) == [(0, 2), (0, 2), (3, 6)]
    assert (sentence.multiword_tokens, sentence.unsplit_multiwords) == (1, 1)


def test_c04_only_lf_ends_a_line() -> None:
    sentence = one_bytes(
        "# text = a\u2028b c\u0085d\n" + row("1", "a\u2028b") + "\n" + row("2", "c\u0085d") + "\n"
    )
    assert sentence.forms == ("a\u2028b", "c\u0085d")
    assert spans(sentence) == [(0, 3), (4, 7)]


def one_bytes(text: str) -> ConlluSentence:
    (sentence,) = parse_conllu(line + b"\n" for line in text.encode().split(b"\n"))
    return sentence


def test_documents_and_comment_only_blocks() -> None:
    text = (
        "# newdoc id = d1\n\n"
        + row("1", "a")
        + "\n\n"
        + row("1", "b")
        + "\n\n# newdoc id = d2\n"
        + row("1", "c")
    )
    sentences = list(parse_conllu(text.splitlines(keepends=True)))
    assert [s.doc_id for s in sentences] == ["d1", "d1", "d2"]
    assert [s.starts_document for s in sentences] == [True, False, True]
    assert [s.line for s in sentences] == [3, 5, 7]


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "bom.conllu").write_bytes(b"\xef\xbb\xbf" + DONT_GO.encode())
    (sentence,) = read_conllu(tmp_path / "bom.conllu")
    assert sentence.sent_id == "a"


BAD = {
    "ten columns": ("1 a _ _ _ _ 0 root _ _", 1, "10 columns separated by TAB, found 1"),
    "empty column": (row("1", "a").replace("a\t_", "a\t", 1), 1, "LEMMA is empty"),
    "ids": (row("1", "a") + "\n" + row("3", "b"), 2, "expected word ID 2, found 3"),
    "id": (row("x", "a"), 1, "'x' is not a word"),
    "range order": (row("2-1", "a"), 1, "must start at the next word"),
    "range overlap": ("\n".join((row("1-2", "ab"), row("1", "a"), row("2-3", "bc"))), 3, "not overlap"),
    "range end": (row("1-2", "ab") + "\n" + row("1", "a"), 2, "up to 2, found 1"),
    "head range": (row("1", "a", "2", "dep"), 1, "HEAD '2' of word 1"),
    "head self": (row("1", "a", "1", "dep"), 1, "HEAD '1' of word 1"),
    "head sign": (row("1", "a", "-1", "dep"), 1, "HEAD '-1' of word 1"),
    "cycle": (row("1", "a", "2", "x") + "\n" + row("2", "b", "1", "x"), 1, "cycle"),
    "text": (
        "# text = ab\n" + row("1", "a") + "\n" + row("2", "c"),
        3,
        "expected 'c' at character 1, found 'b'",
    ),
    "text longer": ("# text = a b\n" + row("1", "a"), 2, "goes on after the sentence's last word"),
    "no words": (row("0.1", "a"), 1, "empty nodes only"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_sentences_name_the_line_and_reading_can_go_on(name: str) -> None:
    bad, line, message = BAD[name]
    lines = [row("1", "ok"), "", *bad.split("\n"), "", row("1", "fine")]
    with pytest.raises(ConlluError, match=r"\AT, line ") as caught:
        list(parse_conllu(lines, source="T"))
    assert caught.value.line == line + 2
    assert message in caught.value.reason
    errors: list[ConlluError] = []
    kept = list(parse_conllu(lines, on_error=errors.append))
    assert [s.forms for s in kept] == [("ok",), ("fine",)]
    assert [e.line for e in errors] == [line + 2]


def test_bytes_that_are_not_utf8_name_the_line() -> None:
    with pytest.raises(ConlluError, match=r"line 2: not UTF-8 \(byte 0xca at byte 0"):
        list(parse_conllu([row("1", "a").encode() + b"\n", "是".encode("gbk") + b"\n"]))


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[str], list[bool], list[int]]:
    """Words, whether a space follows each, and heads (0-based, root = itself) that form a tree."""
    words = draw(
        st.lists(st.text("aé是\u200b👨. ", min_size=1, max_size=4).filter(str.strip), min_size=1, max_size=8)
    )
    words = [word.strip() for word in words]
    spaces = draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    order = draw(st.permutations(range(len(words))))
    heads = [0] * len(words)
    for place, word in enumerate(order):
        heads[word] = order[draw(st.integers(0, place - 1))] if place else word
    return words, spaces, heads


@given(sentences(), st.booleans())
def test_every_word_stands_where_its_offsets_say(
    case: tuple[list[str], list[bool], list[int]], named: bool
) -> None:
    words, spaces, heads = case
    text = "".join(w + " " * s for w, s in zip(words, spaces, strict=True)).strip(" ")
    rows = [
        row(str(i + 1), w, "0" if h == i else str(h + 1), "x", "_" if s else "SpaceAfter=No")
        for i, (w, s, h) in enumerate(zip(words, spaces, heads, strict=True))
    ]
    (sentence,) = parse_conllu([*([f"# text = {text}"] if named else []), *rows])
    assert sentence.text == text
    assert sentence.heads == tuple(heads)
    assert [sentence.text[a:b] for a, b in spans(sentence)] == words
    assert list(sentence.spaces) == [s and i + 1 < len(words) for i, s in enumerate(spaces)]


@pytest.mark.skipif(not UD.is_dir(), reason=f"real treebanks are not at {UD}")
@pytest.mark.parametrize(
    ("name", "count", "words", "ranges", "empty"),
    [("en_ewt/dev", 2001, 25147, 359, 4), ("zh/gsdsimp-dev", 500, 12663, 0, 0), ("zh/hk", 1004, 9874, 0, 0)],
)
def test_real_treebanks(name: str, count: int, words: int, ranges: int, empty: int) -> None:
    read = list(read_conllu(UD / f"{name}.conllu"))
    assert len(read) == count
    assert sum(len(s.forms) for s in read) == words
    assert sum(s.multiword_tokens for s in read) == ranges
    assert sum(s.empty_nodes for s in read) == empty
    for sentence in read:
        assert sentence.has_parse
        assert all(sentence.text[a:b] == f for f, (a, b) in zip(sentence.forms, spans(sentence), strict=True))
