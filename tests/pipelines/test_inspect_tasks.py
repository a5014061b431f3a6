"""`treegraft inspect` on questions, choices and targets: what is marked, and that it is the right thing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines.view.folder import FolderError
from pipelines.view.inspect import load, show
from pipelines.view.rowview import RowView
from tests.corpora.test_verify_answers import QUESTION, WINDOW
from tests.corpora.test_verify_choices import CUT, ROW, WHOLE
from tests.pipelines.annotated import config_of, document, encode
from tests.rows import GROUPS, documents_schema, make_rows, rows_schema, write_folder

EVIL = "\x1b[31m<script>alert(1)</script>[bold]&"


def printed(folder: Path, width: int = 100, **options: Any) -> str:
    out = io.StringIO()
    show(folder, Console(file=out, width=width, color_system=None), **options)
    return out.getvalue()


def page_of(folder: Path, **options: Any) -> str:
    target = folder.parent / "page.html"
    printed(folder, html=target, **options)
    return target.read_text(encoding="utf-8")


def folder_of(tmp_path: Path, task: str, rows: list[dict[str, Any]], groups: tuple[str, ...] = ()) -> Path:
    schema = rows_schema(task, groups)
    kept = [{name: row[name] for name in schema.names} for row in rows]
    return write_folder(tmp_path / task, schema, {"train": [kept]}, task=task)


def section(text: str, name: str) -> list[str]:
    """Lines below a heading, up to the next."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(name))
    stop = next((i for i in range(start + 1, len(lines)) if not lines[i]), len(lines))
    return lines[start:stop]


# --- span -------------------------------------------------------------------------------------


def test_a_window_shows_question_answer_and_context(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "span", QUESTION)
    text = printed(folder, row=1)
    for line in (
        "question      q",
        "window        1",
        "answer        tokens 4 to 5: d e",
        "gold answers  d e",
        "most context  2 of the 4 tokens of the text have it in this window",
    ):
        assert line in text
    assert section(text, "question  3") == ["question  3 characters", "wo?"]
    assert section(text, "text  13")[1] == "a b c d e f g"
    rows = [line.split() for line in section(text, "tokens  8") if "B" in line.split()]
    dots = [(r[2 if len(r) > 2 else 0], line.count("●")) for r, line in zip(rows, rows, strict=True)]
    assert [count for _, count in dots] == [0, 2, 2, 0, 0]  # c, d, e, f, [SEP]


def test_an_answer_is_marked_in_tokens_and_text(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "span", [WINDOW])
    view = load(folder, 0)
    assert isinstance(view, RowView)
    assert [t.answer for t in view.tokens] == [False] * 4 + [True, True, False, False]
    assert [t.best for t in view.tokens] == WINDOW["is_max_context"]
    assert view.answer == (2, 7)
    html = page_of(folder)
    assert 'class="text">a <mark>b' in html and "cd</mark> e" in html
    assert html.count("●") == 2 + 4
    assert "tokens 4 to 5: b" in html and "<dt>window</dt><dd>0</dd>" in html


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"answer_start": 0, "answer_stop": 1}, "none in this window: [CLS] stands for it (null span)"),
        (
            {"answer_start": 0, "answer_stop": 1, "is_impossible": True, "answers": []},
            "none: the question has none in the whole text; [CLS] stands for it (null span)",
        ),
        ({"answer_start": 6, "answer_stop": 99}, "tokens 6 to 98"),  # a wrong row can be looked at
        ({"answer_start": 50, "answer_stop": 60}, "tokens 50 to 59: ?"),
        ({"is_max_context": [True]}, "most context  1 of the 4"),
        ({"answers": []}, "gold answers  none given"),
    ],
)
def test_null_spans_and_wrong_rows(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "span", [WINDOW | changes])
    assert said in printed(folder, width=140)
    assert said.split("  ")[-1] in page_of(folder)


# --- choice -----------------------------------------------------------------------------------


def test_every_choice_is_shown_and_the_right_one_marked(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "choice", [ROW], GROUPS)
    text = printed(folder, grid="none")
    assert "right choice  1: h" in text
    assert "choices       2 in sequences of 8, 5 tokens" in text
    assert section(text, "choice 0") == ["choice 0", "ef g"]
    assert section(text, "choice 1") == ["choice 1  the right one", "h"]
    assert text.count("\ntokens  8") == text.count("\ntokens  5") == 1
    assert text.count("dependency parse") == text.count("sentence tree") == 2
    assert (
        text.index("choice 0")
        < text.index("\ntokens  8")
        < text.index("choice 1")
        < text.index("\ntokens  5")
    )
    html = page_of(folder)
    assert "<mark>h</mark>" in html and "<mark>ef g</mark>" not in html
    assert html.count(">tokens <small") == 2 and html.count("syntax mask (ancestors) <small") == 2
    assert printed(folder, grid="syntax").count("syntax mask (ancestors)") == 2


def test_one_choice_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "choice", [ROW], GROUPS)
    text = printed(folder, choice=1, only=["tokens"])
    assert section(text, "choice 1") == ["choice 1  the right one", "h"]
    assert "choice 0" not in text and "\ntokens  8" not in text and "\ntokens  5" in text
    with pytest.raises(FolderError, match="has no choice 2: it has 2, numbered from 0"):
        printed(folder, choice=2)


def test_choices_have_numbers_of_their_own(tmp_path: Path) -> None:
    rows = make_rows(3, "choice", GROUPS, 5)
    folder = folder_of(tmp_path, "choice", rows, GROUPS)
    for number, row in enumerate(rows):
        view = load(folder, number)
        assert isinstance(view, RowView) and view.parsed
        assert [len(c.view.tokens) for c in view.choices] == row["choice_lengths"]
        assert [len(c.view.words or []) for c in view.choices] == row["choice_words"]
        assert [len(c.view.coarse or []) for c in view.choices] == row["choice_coarse"]
        assert [len(c.view.tree or []) for c in view.choices] == row["choice_tree"]
        assert [len(c.view.branches) for c in view.choices] == row["choice_branches"]
        assert [c.text for c in view.choices] == row["text_pair"].split("\n")
        assert [c.right for c in view.choices] == [
            None if row["label"] is None else i == row["label"] for i in range(len(view.choices))
        ]
        assert [i for c in view.choices for i in (t.id for t in c.view.tokens)] == row["input_ids"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"label": None}, "right choice  not given"),
        ({"label": 7}, "right choice  7: there is no such choice"),
        ({"choice_lengths": [8, 900]}, "sequences of 8, 5 tokens"),
        ({"choice_lengths": [-3, 13]}, "sequences of 0, 13 tokens"),
    ],
)
def test_wrong_choices_can_be_looked_at(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in printed(folder_of(tmp_path, "choice", [ROW | changes]))


def test_a_mask_without_parses_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "choice", [ROW])
    with pytest.raises(FolderError, match="no syntax mask"):
        printed(folder, grid="syntax")


# --- seq2seq ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "said"), [(WHOLE, "whole"), (CUT, "cut to its budget: no [SEP] ends it")], ids=["whole", "cut"]
)
def test_a_target_says_whether_it_was_cut(row: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "seq2seq", [row], GROUPS)
    text = printed(folder)
    assert f"target  {said}" in text
    assert section(text, "source")[1] == "ab cd" and section(text, "target  4")[1] == "ef g"
    assert f"<dt>target</dt><dd>{said}</dd>" in page_of(folder)


# --- documents --------------------------------------------------------------------------------


def write_documents(tmp_path: Path, task: str, made: dict[str, Any]) -> Path:
    schema = documents_schema(task, pair=True)
    rows = [{name: made[name] for name in schema.names}]
    return write_folder(tmp_path / "docs", schema, {"train": [rows]}, stage="annotate", task=task)


def test_a_document_with_a_question(tmp_path: Path) -> None:
    made = document(
        "q",
        "在哪？",
        pair=True,
        text_pair="我在北京。",
        answers=["北京", "x"],
        answer_starts=[2, -1],
        is_impossible=False,
    )
    folder = write_documents(tmp_path, "span", made)
    text = printed(folder)
    assert "gold answers  北京 (at 2) | x (place unknown)" in text
    assert section(text, "question  3")[1] == "在哪？" and section(text, "text  5")[1] == "我在北京。"
    assert "北京 (at 2) | x (place unknown)" in page_of(folder)
    made |= {"answers": [], "answer_starts": [], "is_impossible": True}
    assert "answer    none: the question has none in the text" in printed(
        write_documents(tmp_path / "b", "span", made)
    )


def test_a_document_with_choices(tmp_path: Path) -> None:
    made = document(
        "q",
        "我在北京。",
        pair=True,
        text_pair=f"对\n不{EVIL}",
        choice_starts=[0, 2],
        choice_stops=[1, 3 + len(EVIL)],
        label="1",
    )
    folder = write_documents(tmp_path, "choice", made)
    text = printed(folder)
    assert "right choice  1: 不" in text and "\x1b" not in text
    lines = section(text, "choices  2")
    assert sum("●" in line for line in lines) == 1 and "●" in lines[-1]
    html = page_of(folder)
    assert "<script>" not in html and html.count("●") == 1


# --- from documents to what is shown ----------------------------------------------------------


def test_encoded_questions_are_shown_as_encoded(tmp_path: Path) -> None:
    made = document(
        "q1",
        "在哪？",
        pair=True,
        text_pair="我在北京。" * 6,
        answers=["北京"],
        answer_starts=[12],
        is_impossible=False,
    )
    config = config_of(
        "span", groups=("syntax",), max_length=16, encode={"span": {"max_question": 4, "doc_stride": 5}}
    )
    run = encode(tmp_path, config, [made])
    found = [i for i, row in enumerate(run.rows) if row["answer_start"]]
    assert found and len(run.rows) > 3
    for number in range(len(run.rows)):
        text = printed(run.folder, row=number)
        assert (": 北京" in text) == (number in found)
        assert f"window        {number}" in text
