"""Treebanks for the Chinese parser: one script, one set of labels, two segmentations, nothing trained on twice."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.conllu import parse_conllu
from pipelines.training.treebanks import Sentence, harmonised, load, plain, resegmented, simplifier
from tests.pipelines.training.handmade import conllu


def test_held_out_sentences_are_not_trained_on(tmp_path: Path) -> None:
    (tmp_path / "zh").mkdir()
    for name in ("gsdsimp-dev", "pud", "hk", "cfl"):
        text = conllu(*(f"{name[0]}{i}/NOUN/0/root 書/NOUN/1/obj" for i in range(11)))
        (tmp_path / "zh" / f"{name}.conllu").write_text(text, "utf-8")
    treebanks, gold = load(tmp_path, "zh")
    assert [s.forms[0] for s in gold] == ["g0", "g5", "g10"]
    assert [s.words[0] for s in treebanks[0]] == ["g1", "g2", "g3", "g4", "g6", "g7", "g8", "g9"]
    assert [len(bank) for bank in treebanks[1:]] == [11, 11, 11]
    assert treebanks[0][0].words[1] == "書" and treebanks[1][0].words[1] == "书", "GSDSimp is left as it is"
    assert {s.treebank for bank in treebanks[1:] for s in bank} == {"pud", "hk", "cfl"}
    assert {s.treebank for s in treebanks[0]} == {""}, "the one to be followed has no name"


def test_words_are_simplified_one_by_one_and_keep_their_length() -> None:
    text = conllu("看/VERB/0/root 書/NOUN/1/obj 乾隆/PROPN/1/obj")
    (sentence,) = parse_conllu(text.splitlines())
    simple = simplifier()(plain(sentence, ""))
    assert simple.words[:2] == ("看", "书")
    assert [len(word) for word in simple.words] == [1, 1, 2]


def test_labels_follow_gsd() -> None:
    words = (
        "三/NUM/3/nummod 本/NOUN/3/clf 書/NOUN/4/obl:tmod 買/VERB/0/root 上/ADP/3/case:loc 也/ADV/4/advmod"
    )
    (sentence,) = parse_conllu(conllu(words).splitlines())
    changed = harmonised(plain(sentence, "pud"))
    assert changed.heads == (2, 0, 3, 3, 2, 3)  # the classifier hangs on its numeral
    assert changed.deprels == ("nummod", "clf", "nmod:tmod", "root", "case", "mark")
    assert changed.upos == ("NUM", "NOUN", "NOUN", "VERB", "ADP", "SCONJ")


def sentence(text: str) -> Sentence:
    (parsed,) = parse_conllu(conllu(text).splitlines())
    return plain(parsed, "")


LAB = "博物/NOUN/2/compound 馆/PART/4/nsubj 已/ADV/4/advmod 开放/VERB/0/root 12月/NOUN/4/obl"


def test_joined_words_take_the_place_of_the_one_that_governs() -> None:
    joined = resegmented(sentence(LAB), ["博物馆", "已", "开放", "12月"])
    assert joined.words == ("博物馆", "已", "开放", "12月")
    assert joined.heads == (2, 2, 2, 2) and joined.deprels == ("nsubj", "advmod", "root", "obl")
    assert joined.upos[0] == "NOUN"  # a suffix alone is PART, the whole word is not


def test_split_words_hang_on_their_last_part() -> None:
    split = resegmented(sentence(LAB), ["博物", "馆", "已", "开", "放", "12", "月"])
    assert split.heads == (1, 4, 4, 4, 4, 6, 4)
    assert split.deprels == ("compound", "nsubj", "advmod", "compound", "root", "nummod", "obl")
    assert split.upos[5:] == ("NUM", "NOUN")


def test_words_stay_where_segmentations_cross_or_nothing_governs() -> None:
    original = sentence(LAB)
    assert resegmented(original, ["博", "物馆", "已", "开放", "12月"]) == original  # crossing
    unrelated = sentence("我/PRON/3/nsubj 不/ADV/3/advmod 去/VERB/0/root")
    assert resegmented(unrelated, ["我不", "去"]) == unrelated  # both depend on a word outside


def test_a_segmentation_of_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a segmentation of '博物馆已开放12月', found '博物馆'"):
        resegmented(sentence(LAB), ["博物馆"])


@given(st.data())
def test_resegmented_keeps_text_and_tree(data: st.DataObject) -> None:
    def cut(text: str) -> tuple[str, ...]:
        at = sorted(data.draw(st.sets(st.integers(1, len(text) - 1)))) if len(text) > 1 else []
        return tuple(text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True))

    text = data.draw(st.text("甲乙1x", min_size=1, max_size=12))
    words = cut(text)
    order = data.draw(st.permutations(range(len(words))))
    heads = [0] * len(words)
    for place, word in enumerate(order):
        heads[word] = order[data.draw(st.integers(0, place - 1))] if place else word
    n = len(words)
    original = Sentence("d", words, (False,) * n, ("NOUN",) * n, tuple(heads), ("x",) * n, treebank="hk")
    changed = resegmented(original, cut(text))
    assert "".join(changed.words) == text and changed.treebank == "hk"
    assert (
        len({len(changed.words), *map(len, (changed.spaces, changed.upos, changed.heads, changed.deprels))})
        == 1
    )
    assert sum(head == i for i, head in enumerate(changed.heads)) == 1
    for at in range(len(changed.words)):
        for _ in changed.words:
            at = changed.heads[at]
        assert changed.heads[at] == at, "every word leads to the root"
    assert resegmented(original, words) == original
