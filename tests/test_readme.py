"""Tables of README and docs are made from the code, so that they cannot drift.

`python -m tests.test_readme` writes them anew between their markers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpora import schema, sections
from corpora.schema import Column
from corpora.verify import RULES
from models.checkpoint import MODELS
from models.train.recipe import TASK_NAMES, Recipe
from pipelines.config import Config
from tests.pages import PAGES, ROOT, blocks
from tests.rows import CLS, SEP, make_rows


def _type(column: Column) -> str:
    text = str(column.type).replace(" not null", "").replace("item: ", "")
    return text.replace("dictionary<values=string, indices=int16, ordered=0>", "dictionary")


def _columns(columns: Iterable[Column]) -> str:
    lines = ["| group | column | type | shape | meaning |", "|---|---|---|---|---|"]
    lines += [f"| {c.group} | `{c.name}` | `{_type(c)}` | {c.shape} | {c.meaning} |" for c in columns]
    return "\n".join(lines)


def _tasks() -> str:
    """Which model has which task of a recipe."""
    rows = [["model", *(f"`{task}`" for task in TASK_NAMES)], ["---"] * (1 + len(TASK_NAMES))]
    rows += [
        [f"`{name}`", *("yes" if task in kind.tasks else "" for task in TASK_NAMES)]
        for name, kind in MODELS.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def tables() -> dict[str, str]:
    """Marker name to the Markdown that stands between its markers."""
    base = schema.row_columns("tag", schema.GROUPS)
    shared = {c.name for c in base if c.group != "label"}
    labels = {
        task: [c for c in schema.row_columns(task, schema.GROUPS) if c.name not in shared]
        for task in schema.TASKS
    }
    label_lines = ["| task | column | type | shape | meaning |", "|---|---|---|---|---|"]
    for task, columns in labels.items():
        label_lines += [f"| {task} | `{c.name}` | `{_type(c)}` | {c.shape} | {c.meaning} |" for c in columns]
    rules = [
        "| rule | what must hold |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in RULES.items()),
    ]
    return {
        "rows": _columns(c for c in base if c.group != "label") + "\n\n" + "\n".join(label_lines),
        "documents": _columns(schema.annotated_columns(parsed=True, pair=False)),
        "config": sections.as_markdown(Config),
        "recipe": sections.as_markdown(Recipe),
        "tasks": _tasks(),
        "rules": "\n".join(rules),
    }


def _filled(text: str) -> str:
    for name, table in tables().items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = pattern.sub(lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text)  # type: ignore[misc]
    return text


def test_tables_say_what_the_code_says() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert [_filled(text) for text in texts] == texts, (
        "run `python -m tests.test_readme` and look at the difference"
    )
    for name in tables():
        assert sum(f"<!-- /{name} -->" in text for text in texts) == 1, name


def _anchors(page: Path) -> set[str]:
    """Names that links reach the headings of a page by."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_command_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        to = (page.parent / target).resolve() if target else page
        assert to.exists(), target
        assert not anchor or anchor in _anchors(to), (target, anchor)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^    |`)make ([a-z]+)\b", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    rooms = [*(ROOT / "pipelines").glob("*.py"), *(ROOT / "models").glob("commands*")]
    cli = "".join(f.read_text(encoding="utf-8") for f in rooms)
    for command in set(re.findall(r"(?:^|`)treegraft ([a-z-]+)", text, re.MULTILINE)):
        assert any(f"{so}{command}{then}" in cli for so, then in (("def ", "("), ('"', '"'))), command


def test_the_masks_shown_are_the_masks() -> None:
    """README's block runs, and agrees with loops over trees and heads."""
    (code,) = blocks("masks", "python")
    shown: dict[str, Any] = {}
    exec(code, shown)  # our own README
    for row in make_rows(5, "tag", schema.GROUPS, 60):
        r = {name: np.array(value) if isinstance(value, list) else value for name, value in row.items()}
        words, heads = r["word_index"], r["word_heads"]

        def climbs(low: int, high: int, heads: Any = heads) -> bool:
            """Whether `high` is `low` or above it."""
            while low != high and heads[low] != low:
                low = heads[low]
            return low == high

        up, down = shown["syntax"](r), shown["syntax"](r, children=True)
        for i, a in enumerate(words):
            for j, b in enumerate(words):
                both = a >= 0 and b >= 0
                assert up[i, j] == (i == j or (both and climbs(a, b)))
                assert down[i, j] == (i == j or (both and climbs(b, a)))
        matrix, branch, mention = shown["visible"](r), r["tree_branch"], r["tree_mention"]
        paths = [
            [0]
        ]  # of each branch: itself and all that it hangs from, but for the trunk, which is its own
        for k, parent in enumerate(row["branch_parents"], start=1):
            paths.append([k, *(paths[parent] if parent else [])])
        for i in range(len(branch)):
            for j in range(len(branch)):
                trunk = (branch[i] == 0) + (branch[j] == 0)
                own = trunk == 1 and mention[i] == mention[j] >= 0
                one_path = branch[i] in paths[branch[j]] or branch[j] in paths[branch[i]]
                assert matrix[i, j] == (one_path or own)
        labels = iter(r["token_labels"])
        assert shown["tree_labels"](r).tolist() == [-100 if b else next(labels) for b in branch]
    pair = {"token_type_ids": np.array([0, 0, 0, 1, 1])}
    assert shown["unilm"](pair, "sequence-to-sequence").astype(int).tolist() == [
        [1, 1, 1, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]


def test_the_coarse_masking_shown_masks_whole_coarse_tokens() -> None:
    (code,) = blocks("coarse", "python")
    shown: dict[str, Any] = {}
    exec(code, shown)  # our own page
    masked = 0
    for row in make_rows(20, "pretrain", schema.GROUPS, 60):
        r = {name: np.array(value) if isinstance(value, list) else value for name, value in row.items()}
        coarse, fine = shown["mask_coarse"](r, np.random.default_rng(0), special=(CLS, SEP))
        assert (len(coarse), len(fine)) == (len(r["coarse_ids"]), len(r["input_ids"]))
        assert [bool(coarse[i]) for i in r["coarse_index"]] == fine.tolist()
        assert not fine[np.isin(r["input_ids"], (CLS, SEP))].any()
        masked += int(coarse.sum())
    assert masked > 20


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(_filled(page.read_text(encoding="utf-8")), encoding="utf-8")
