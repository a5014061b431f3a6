from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.encode import stage as stage_module
from pipelines.encode.choice import LENGTHS
from tests.pipelines.annotated import Encoded, annotate, config_of, document, encode
from tests.pipelines.test_encode import ALL, assert_sound, pieces, vocab
from tests.pipelines.test_span import CHARACTERS, STRINGS

CHOICES = st.lists(CHARACTERS.filter(lambda c: c != "\n"), max_size=20).map("".join)


def question(name: str, passage: str, choices: Sequence[str], label: str | None = "0") -> dict[str, Any]:
    """An annotated question: each choice annotated by itself, as stage 1 does it."""
    starts = [sum(len(c) + 1 for c in choices[:i]) for i in range(len(choices))]
    row = document(
        name,
        passage,
        pair=True,
        text_pair="\n".join(choices),
        choice_starts=starts,
        choice_stops=[s + len(c) for s, c in zip(starts, choices, strict=True)],
        label=label,
    )
    row |= {k: [] for k in row if k.endswith("_pair") and k != "text_pair"}
    for choice, start in zip(choices, starts, strict=True):
        words = len(row["word_heads_pair"])
        alone = of_choice(choice)
        row["sentence_starts_pair"] += [start + a for a, _ in alone.sentences]
        row["sentence_stops_pair"] += [start + b for _, b in alone.sentences]
        row["word_starts_pair"] += [start + a for a, _ in alone.words]
        row["word_stops_pair"] += [start + b for _, b in alone.words]
        row["word_heads_pair"] += [words + h for h in alone.heads]
        row["word_deprels_pair"] += alone.deprels
        row["word_pos_pair"] += ["X"] * len(alone.words)
    return row


def of_choice(choice: str) -> Any:
    return annotate(choice, random.Random(choice))


def as_pairs(documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every choice as the second text of a document of its own."""
    rows = []
    for source in documents:
        for i, (a, b) in enumerate(zip(source["choice_starts"], source["choice_stops"], strict=True)):
            choice = source["text_pair"][a:b]
            alone = of_choice(choice)
            row = dict(source) | {"doc_id": f"{source['doc_id']}.{i}", "text_pair": choice, "label": None}
            row |= {
                "sentence_starts_pair": [a for a, _ in alone.sentences],
                "sentence_stops_pair": [b for _, b in alone.sentences],
                "word_starts_pair": [a for a, _ in alone.words],
                "word_stops_pair": [b for _, b in alone.words],
                "word_heads_pair": alone.heads,
                "word_deprels_pair": alone.deprels,
                "word_pos_pair": ["X"] * len(alone.words),
            }
            rows.append(row)
    return rows


BY_TOKEN = ("input_ids", "token_type_ids", "char_starts", "char_stops", "word_index", "coarse_index")
OF_LENGTH = {
    "choice_lengths": BY_TOKEN,
    "choice_words": ("word_heads", "word_deprels", "word_dfs_in", "word_dfs_out", "sentence_index"),
    "choice_coarse": ("coarse_ids", "coarse_token_type_ids"),
    "choice_tree": (
        "tree_ids",
        "tree_token_type_ids",
        "tree_soft_positions",
        "tree_branch",
        "tree_mention",
        "tree_trunk_index",
    ),
    "choice_branches": ("branch_triples", "branch_parents"),
}


def taken_apart(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices of a row, each as a row of its own."""
    count = len(row["choice_starts"])
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for lengths, names in OF_LENGTH.items():
        if lengths not in row:
            continue
        ends = list(itertools.accumulate(row[lengths]))
        for name in names:
            if name in row:
                assert len(row[name]) == ends[-1]
                for choice, end, size in zip(found, ends, row[lengths], strict=True):
                    choice[name] = row[name][end - size : end]
    for choice, start, stop in zip(found, row["choice_starts"], row["choice_stops"], strict=True):
        for name in ("char_starts", "char_stops"):  # special tokens have 0 and 0
            inner = [0 < i < len(choice[name]) - 1 for i in range(len(choice[name]))]
            separator = choice["token_type_ids"].index(1) - 1
            choice[name] = [
                value - start * (kind == 1 and inside and i != separator)
                for i, (value, kind, inside) in enumerate(
                    zip(choice[name], choice["token_type_ids"], inner, strict=True)
                )
            ]
        choice |= {"text": row["text"], "text_pair": row["text_pair"][start:stop]}
    return found


# --- by hand ----------------------------------------------------------------------------------


def test_a_row_by_hand(tmp_path: Path) -> None:
    tokens = "我在北京哪上海首都吗"
    made = config_of("choice", groups=ALL, max_length=12, encode=vocab(tmp_path, *tokens))
    run = encode(
        tmp_path / "run",
        made,
        [question("q", "我在北京", ["在哪上海", "北京"], "1")],
        triples="北京\t类别\t首都\n上海\t类别\t海\n",
    )
    assert_sound(run)
    (row,) = run.rows
    assert row["id"] == "q#0"
    assert (row["text"], row["text_pair"]) == ("我在北京", "在哪上海\n北京")
    assert row["label"] == 1
    assert pieces(run, tokens) == "CLS 我 在 北 京 SEP 在 哪 上 海 SEP CLS 我 在 北 京 SEP 北 京 SEP"
    assert row["token_type_ids"] == [0] * 6 + [1] * 5 + [0] * 6 + [1] * 3
    assert row["char_starts"] == [0, 0, 1, 2, 3, 0, 0, 1, 2, 3, 0, 0, 0, 1, 2, 3, 0, 5, 6, 0]
    assert row["char_stops"] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 0, 6, 7, 0]
    assert (row["choice_starts"], row["choice_stops"]) == ([0, 5], [4, 7])
    assert row["choice_lengths"] == [11, 9]
    assert row["word_index"] == [-1, 0, 0, 1, 1, -1, 2, 2, 3, 3, -1, -1, 0, 0, 1, 1, -1, 2, 2, -1]
    assert row["choice_words"] == [4, 3]
    assert len(row["word_heads"]) == 7
    assert row["choice_coarse"] == [9, 7]  # 我在 and 在哪 are no entries, their characters are
    assert row["coarse_index"] == [0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 8, 0, 1, 2, 3, 3, 4, 5, 5, 6]
    # Of the first choice 12 tokens hold one token of 海 only, of the second one branch of two.
    assert pieces(run, tokens, "tree_ids") == (
        "CLS 我 在 北 京 SEP 在 哪 上 海 海 SEP CLS 我 在 北 京 首 都 SEP 北 京 SEP"
    )
    assert row["choice_tree"] == [12, 11]
    assert row["choice_branches"] == [1, 1]
    assert row["tree_branch"] == [0] * 10 + [1, 0] + [0] * 5 + [1, 1] + [0] * 4
    assert row["tree_trunk_index"] == [*range(10), -1, 10, *range(5), -1, -1, *range(5, 9)]
    assert run.counters["rows"] == 1
    assert run.counters["tokens"] == 20


def test_each_choice_is_cut_by_itself(tmp_path: Path) -> None:
    tokens = "甲乙丙丁戊己庚辛"
    made = config_of("choice", max_length=8, encode=vocab(tmp_path, *tokens))
    run = encode(
        tmp_path / "run",
        made,
        [question("q", tokens, ["甲", "甲乙丙丁戊"]), question("r", "甲", ["乙", "丙"])],
    )
    assert_sound(run)
    assert pieces(run, tokens) == "CLS 甲 乙 丙 丁 SEP 甲 SEP CLS 甲 乙 丙 SEP 甲 乙 SEP"
    assert run.counters["truncated_choices"] == 2
    assert run.counters["truncated_rows"] == 1


def test_labels_and_rejects(tmp_path: Path) -> None:
    documents = [
        question("a", "我", ["好", "很好"], None),
        question("b", "我", ["好", "很好"], "2"),
        question("c", "我", ["好", "\u200b"]),
        question("d", "我", []),
        question("e", "\x00", ["好"]),
        question("f", "我", ["好"], "A"),
        question("g", "我", ["好"], "-1"),
        question("h", "我", ["好", "很好", "好"], "2"),
    ]
    run = encode(tmp_path, config_of("choice"), documents)
    assert_sound(run)
    assert [(r["id"], r["label"], len(r["choice_lengths"])) for r in run.rows] == [
        ("a#0", None, 2),
        ("h#0", 2, 3),
    ]
    assert run.rejects == {"bad_label": 3, "no_choices": 1, "no_tokens": 2}
    lines = (run.folder / "rejects" / "train-00000-of-00001.jsonl").read_text(encoding="utf-8")
    assert "found '2' for 2 choices" in lines
    assert "found 'A' for 1 choices" in lines


def test_lengths_are_of_the_groups_asked_for(tmp_path: Path) -> None:
    for groups in ((), ("syntax",), ("coarse",), ("tree",)):
        run = encode(
            tmp_path / "-".join(("g", *groups)),
            config_of("choice", groups=groups),
            [question("a", "我在北京", ["好", "很好"])],
        )
        assert_sound(run)
        assert set(run.rows[0]) & set(LENGTHS) == {
            "choice_lengths",
            *({"choice_words"} if "syntax" in groups else ()),
            *({"choice_coarse"} if "coarse" in groups else ()),
            *({"choice_tree", "choice_branches"} if "tree" in groups else ()),
        }


# --- anything at all --------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(STRINGS, st.lists(CHOICES, max_size=4)), min_size=1, max_size=4),
    st.integers(8, 24),
    st.sampled_from(["longest", "words"]),
)
def test_choices_taken_apart_are_rows_of_pairs(
    tmp_path_factory: pytest.TempPathFactory,
    asked: list[tuple[str, list[str]]],
    length: int,
    match: str,
) -> None:
    documents = [question(f"q{i}", text, choices) for i, (text, choices) in enumerate(asked)]
    folder = tmp_path_factory.mktemp("any")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_module, "CHUNK_ROWS", 2)
        made = encode(
            folder / "choice",
            config_of("choice", groups=ALL, max_length=length, graph={"match": match}),
            documents,
        )
    assert_sound(made)
    assert len(made.rows) + sum(made.rejects.values()) == len(documents)
    names = {row["id"].removesuffix("#0") for row in made.rows}
    single = pairs_of(folder, [d for d in documents if d["doc_id"] in names], length, match)
    found = [choice for row in made.rows for choice in taken_apart(row)]
    assert len(found) == len(single.rows)
    for choice, row in zip(found, single.rows, strict=True):
        assert choice == {name: row[name] for name in choice}
    if single.rows:
        for name in ("tokens", "branches", "mentions", "coarse_tokens", "unknown_tokens"):
            assert made.counters[name] == single.counters[name], name


def pairs_of(folder: Path, documents: Sequence[dict[str, Any]], length: int, match: str) -> Encoded:
    config = config_of(
        "classify", groups=ALL, max_length=length, input={"text_pair": "b"}, graph={"match": match}
    )
    return encode(folder / "pairs", config, as_pairs(documents))
