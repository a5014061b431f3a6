"""Every rule of annotated documents fires, and only where it should."""

from __future__ import annotations

import pytest

from corpora.verify import verify
from corpora.verify.documents import white_space
from tests.corpora.breaking import at, breaks, expect, put
from tests.rows import documents_schema, make_documents, write_folder

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"

BY_HAND = {
    # "我在北京。 Hi  you!" in two sentences, and a second text with characters outside the BMP
    "doc_id": "by-hand",
    "text": "我在北京。 Hi\u3000 you!\n",
    "text_pair": f"\t{FAMILY}在\u200b",
    "language": "zh",
    "source": "a.txt@0",
    "label": "good",
    "label_score": 0.5,
    "tag_starts": [0, 2],
    "tag_stops": [1, 4],
    "tag_labels": ["O", "B"],
    "answers": ["在", "我", FAMILY],
    "answer_starts": [6, -1, 1],
    "is_impossible": False,
    "choice_starts": [0],
    "choice_stops": [8],
    "sentence_starts": [0, 6],
    "sentence_stops": [5, 14],
    "word_starts": [0, 1, 2, 4, 6, 10, 13],
    "word_stops": [1, 2, 4, 5, 8, 13, 14],
    "word_heads": [1, 1, 1, 1, 4, 4, 4],
    "word_deprels": ["nsubj", "root", "obj", "punct", "root", "dep", "punct"],
    "word_pos": ["PRON", "VERB", "PROPN", "PUNCT", "INTJ", "PRON", "PUNCT"],
    "sentence_starts_pair": [1],
    "sentence_stops_pair": [8],
    "word_starts_pair": [1, 6, 7],
    "word_stops_pair": [6, 7, 8],
    "word_heads_pair": [0, 0, 0],
    "word_deprels_pair": ["root", "dep", "dep"],
    "word_pos_pair": ["SYM", "ADP", "X"],
}

ANNOTATIONS = [name for name in BY_HAND if name.endswith("_pair") and name != "text_pair"]

CASES = [
    breaks("nulls", "text", put(text=None)),
    breaks("nulls", "deprel", at("word_deprels", 1, None)),
    breaks("nulls", "tag", at("tag_labels", 1, None)),
    breaks("lengths", "S", put(sentence_stops=[5])),
    breaks("lengths", "D", put(word_pos=["X"] * 6)),
    breaks("lengths", "D-pair", put(word_stops_pair=[6, 7])),
    breaks("lengths", "U", put(tag_labels=["O"])),
    breaks("lengths", "U-null", put(tag_labels=None)),
    breaks("lengths", "D-null", put(word_heads_pair=None)),
    breaks("sentences", "empty", put(sentence_starts=[0, 14], sentence_stops=[14, 14])),
    breaks("sentences", "negative", at("sentence_starts", 0, -1)),
    breaks("sentences", "beyond", at("sentence_stops", 1, 16)),
    breaks("sentences", "overlap", at("sentence_stops", 0, 7)),
    breaks("sentences", "order", put(sentence_starts=[6, 0], sentence_stops=[14, 5])),
    breaks("words", "empty", at("word_stops", 1, 1)),
    breaks("words", "negative", at("word_starts", 0, -1)),
    breaks("words", "beyond", at("word_stops", 6, 16)),
    breaks("words", "beyond-pair", at("word_stops_pair", 2, 9)),
    breaks("words", "overlap", at("word_stops", 1, 3)),
    breaks("words", "order", put(word_starts=[1, 0, 2, 4, 6, 10, 13], word_stops=[2, 1, 4, 5, 8, 13, 14])),
    breaks("words_in_sentences", "across", lambda r: r.update(
        {k: r[k][:3] + r[k][4:] for k in ("word_stops", "word_deprels", "word_pos")} | {
            "word_starts": [0, 1, 2, 6, 10, 13], "word_stops": [1, 2, 6, 8, 13, 14], "word_heads": [1, 1, 1, 3, 3, 3],
        })),
    breaks("words_in_sentences", "between", put(sentence_starts=[0, 10])),
    breaks("words_in_sentences", "before", put(sentence_starts=[1, 6])),
    breaks("words_in_sentences", "none", put(sentence_starts=[], sentence_stops=[])),
    breaks("uncovered_text", "middle", at("word_stops", 4, 7)),
    breaks("uncovered_text", "joiner", at("word_stops_pair", 0, 5)),
    breaks("uncovered_text", "no-words", put(**{k: [] for k in BY_HAND if k.startswith("word_") and not k.endswith("_pair")})),
    breaks("blank_word", "ideographic-space", put(
        word_starts=[0, 1, 2, 4, 6, 8, 10, 13], word_stops=[1, 2, 4, 5, 8, 9, 13, 14], word_heads=[1, 1, 1, 1, 4, 4, 4, 4],
        word_deprels=["dep"] * 8, word_pos=["X"] * 8)),
    breaks("blank_word", "tab", put(
        sentence_starts_pair=[0], word_starts_pair=[0, 1, 6, 7], word_stops_pair=[1, 6, 7, 8],
        word_heads_pair=[0] * 4, word_deprels_pair=["dep"] * 4, word_pos_pair=["X"] * 4)),
    breaks("one_root", "two", at("word_heads", 3, 3)),
    breaks("one_root", "none", put(word_heads=[1, 2, 3, 0, 4, 4, 4]), "heads_cycle"),
    breaks("tags", "empty", at("tag_stops", 0, 0)),
    breaks("tags", "negative", at("tag_starts", 0, -1)),
    breaks("tags", "beyond", at("tag_stops", 1, 99)),
    breaks("tags", "overlap", at("tag_stops", 0, 3)),
    breaks("pair_annotations", "no-text", put(text_pair=None), "answers", "choices"),
    breaks("pair_annotations", "no-words", put(**dict.fromkeys((n for n in ANNOTATIONS if "word" in n), None))),
    breaks("pair_annotations", "no-sentences", put(sentence_starts_pair=None, sentence_stops_pair=None)),
    breaks("heads_range", "beyond", at("word_heads", 0, 7)),
    breaks("heads_range", "negative", at("word_heads_pair", 1, -1)),
    breaks("heads_sentence", "other", at("word_heads", 0, 4)),
    breaks("heads_cycle", "two", put(word_heads=[2, 1, 0, 1, 4, 4, 4])),
    breaks("lengths", "G", put(answer_starts=[6, -1])),
    breaks("lengths", "G-null", put(answer_starts=None)),
    breaks("lengths", "N", put(choice_stops=[])),
    breaks("nulls", "answer", at("answers", 1, None)),
    breaks("answers", "beside", at("answer_starts", 0, 5)),
    breaks("answers", "first-text", at("answer_starts", 1, 0)),
    breaks("answers", "beyond", at("answer_starts", 0, 99)),
    breaks("answers", "from-the-end", at("answer_starts", 0, -2)),
    breaks("answers", "utf16", at("answer_starts", 0, 9)),
    breaks("impossible", "answers", put(is_impossible=True)),
    breaks("impossible", "no answers", put(answers=[], answer_starts=[])),
    breaks("choices", "one-short", at("choice_stops", 0, 7)),
    breaks("choices", "two", put(choice_starts=[0, 7], choice_stops=[6, 8])),
    breaks("label", "nan", put(label_score=float("nan"))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_document_is_found(case, tmp_path):
    others = make_documents(4, 9, pair=True)
    expect(tmp_path, case, BY_HAND, others, documents_schema(pair=True), "annotate", "classify")


@pytest.mark.parametrize("parsed", [True, False])
@pytest.mark.parametrize("pair", [True, False])
def test_valid_documents_are_clean_and_counted(parsed, pair, tmp_path):
    rows = make_documents(5, 400, parsed=parsed, pair=pair)
    schema = documents_schema(parsed=parsed, pair=pair)
    splits = {"train": [rows[:300], [], rows[300:]], "dev": [rows[:2]]}
    folder = write_folder(tmp_path, schema, splits, stage="annotate", task="classify", max_batch_rows=64)
    report = verify(str(folder))
    assert report.ok, "\n".join(report.render())
    words = sum(len(r["word_starts"]) + len(r.get("word_starts_pair") or []) for r in rows + rows[:2])
    assert (report.counts["rows"], report.counts["words"]) == (402, words)


def test_a_document_of_white_space_has_no_words(tmp_path):
    empty = {"sentence_starts": [], "sentence_stops": [], "word_starts": [], "word_stops": []}
    row = {
        **make_documents(1, 1, parsed=False)[0],
        "text": " \u2028\x85\x0c",
        "tag_starts": None,
        "tag_stops": None,
    }
    row |= {"tag_labels": None, **empty}
    folder = write_folder(
        tmp_path, documents_schema(parsed=False), {"train": [[row]]}, stage="annotate", task="classify"
    )
    assert verify(str(folder)).ok


TWO_LINES = {"text_pair": "a b\n\n你", "choice_starts": [0, 4, 5], "choice_stops": [3, 4, 6]}
LINE_CASES = [
    breaks("choices", "joined", put(choice_starts=[0, 5], choice_stops=[4, 6])),
    breaks("choices", "late", put(choice_starts=[1, 4, 5])),
    breaks("choices", "beyond", put(choice_stops=[3, 4, 7])),
    breaks("choices", "backwards", put(choice_starts=[0, 4, 3], choice_stops=[3, 2, 6])),
    breaks("choices", "order", put(choice_starts=[5, 4, 0], choice_stops=[6, 4, 3])),
    breaks("choices", "cut-elsewhere", put(choice_starts=[0, 3, 5], choice_stops=[2, 4, 6])),
]


@pytest.mark.parametrize("case", LINE_CASES, ids=str)
def test_choices_that_are_no_lines_are_found(case, tmp_path):
    second = {"sentence_starts_pair": [0, 5], "sentence_stops_pair": [3, 6], "word_starts_pair": [0, 2, 5]}
    second |= {"word_stops_pair": [1, 3, 6], "word_heads_pair": [0, 0, 2], "word_deprels_pair": ["dep"] * 3}
    row = {
        **BY_HAND,
        **TWO_LINES,
        **second,
        "word_pos_pair": ["X"] * 3,
        "answers": None,
        "answer_starts": None,
        "is_impossible": None,
    }
    expect(
        tmp_path,
        case,
        row,
        make_documents(4, 9, pair=True),
        documents_schema(pair=True),
        "annotate",
        "classify",
    )


def test_white_space_is_that_of_python_for_every_character():
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    assert white_space(["".join(every), None, " "]).tolist() == [c.isspace() for c in every] + [True]
