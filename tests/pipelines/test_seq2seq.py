from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.config import ConfigError
from pipelines.encode.assemble import Cutter
from pipelines.encode.seq2seq import seq2seq_rows
from pipelines.encode.stage import Encode
from pipelines.encode_config import Seq2SeqConfig
from tests.pipelines.annotated import config_of, document, encode
from tests.pipelines.spans import tokens_of
from tests.pipelines.test_encode import ALL, assert_sound, pieces, vocab
from tests.pipelines.test_span import STRINGS


def pair(name: str, source: str, target: str | None) -> dict[str, Any]:
    return document(name, source, pair=True, text_pair=target)


def lengths(sizes: tuple[int, int], max_length: int, **budgets: int) -> tuple[int, int, bool]:
    """Tokens kept of source and target, and whether the target was cut."""
    texts = ["s" * sizes[0], "t" * sizes[1]]
    tokens = tokens_of(texts)
    pairs, document_ = np.array([[0, 1]]), np.array([0])
    rows = seq2seq_rows(tokens, pairs, document_, Seq2SeqConfig(**budgets), max_length, Cutter(texts, tokens))
    kept = (rows.stops - rows.starts)[0].tolist()
    assert rows.unended is not None
    assert int(rows.lengths()[0]) == sum(kept) + 3 - bool(rows.unended[0]) <= max_length
    assert rows.counters["targets_cut"] == int(rows.unended[0])
    assert rows.counters["truncated_rows"] == int(kept != list(sizes))
    return kept[0], kept[1], bool(rows.unended[0])


def test_c33_the_target_has_its_budget_first() -> None:
    assert lengths((600, 50), 512) == (459, 50, False)
    assert lengths((600, 300), 512) == (255, 254, True)
    assert lengths((20, 254), 512) == (20, 254, False)
    assert lengths((20, 255), 512) == (20, 254, True)
    assert lengths((600, 50), 512, max_source=100) == (100, 50, False)
    assert lengths((600, 90), 512, max_target=80) == (429, 80, True)
    assert lengths((600, 600), 512, max_target=508) == (1, 508, True)
    assert lengths((9, 9), 512, max_source=5, max_target=5) == (5, 5, True)


def test_cuts_part_no_cluster() -> None:
    texts = ["abc👨‍👩‍👧", "ab👨‍👩‍👧"]
    tokens = tokens_of(texts)
    rows = seq2seq_rows(
        tokens, np.array([[0, 1]]), np.array([0]), Seq2SeqConfig(max_target=4), 10, Cutter(texts, tokens)
    )
    # Of the target's 4 tokens 2 are left, so the source has 7 - 2 = 5, of which 3 are left.
    assert (rows.stops - rows.starts).tolist() == [[3, 2]]


def test_budgets_are_checked_before_any_work() -> None:
    def check(target: int) -> None:
        Encode.check(config_of("seq2seq", max_length=16, encode={"seq2seq": {"max_target": target}}), "")

    check(12)
    with pytest.raises(
        ConfigError, match=r"max_target is 13, which leaves no token for the source .* = 16 less"
    ):
        check(13)


def test_rows_of_cut_and_whole_targets(tmp_path: Path) -> None:
    tokens = "我在北京苹果很好水首都."
    encoding = vocab(tmp_path, *tokens) | {"seq2seq": {"max_target": 4}}
    documents = [
        pair("a", "我在北京", "苹果很好"),
        pair("b", "我在北京", "苹果很好苹果"),
        pair("c", "我在北京很好很好", "很好苹果很"),
        pair("d", "我在北京", "\u200b"),
        pair("e", "", "很好"),
        pair("f", "很好", None),
    ]
    made = config_of(
        "seq2seq",
        groups=ALL,
        max_length=10,
        encode=encoding,
        graph={"max_length": 32, "max_positions": 32},
    )
    run = encode(tmp_path / "run", made, documents, triples="北京\t类别\t首都\n苹果\t类别\t水果\n")
    assert_sound(run)
    assert [pieces(run, tokens, row=i) for i in range(3)] == [
        "CLS 我 在 北 SEP 苹 果 很 好 SEP",
        "CLS 我 在 北 SEP 苹 果 很 好",
        "CLS 我 在 北 SEP 很 好 苹 果",
    ]
    assert [r["target_cut"] for r in run.rows] == [False, True, True]
    assert run.rejects == {"no_tokens": 3}
    assert run.counters["truncated_rows"] == 3
    assert run.counters["targets_cut"] == 2
    assert run.rows[1]["token_type_ids"] == [0] * 5 + [1] * 4
    assert run.rows[1]["char_starts"] == [0, 0, 1, 2, 0, 0, 1, 2, 3]
    # A branch may end the row where no [SEP] does.
    assert pieces(run, tokens, "tree_ids", 2) == "CLS 我 在 北 SEP 很 好 苹 果 水 果"
    assert run.rows[2]["tree_soft_positions"] == [*range(9), 9, 10]
    assert run.rows[2]["tree_token_type_ids"][-2:] == [1, 1]
    assert pieces(run, tokens, "tree_ids", 1) == "CLS 我 在 北 SEP 苹 果 水 果 很 好"
    assert run.counters["dropped_anchor_cut"] == 4  # 北京 of each row, and 苹果 at b's end


def test_coarse_and_words_of_a_cut_target(tmp_path: Path) -> None:
    vocab = tmp_path / "coarse.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n很\n很好\n", encoding="utf-8")
    section = {"seq2seq": {"max_target": 3}, "coarse": {"vocab": str(vocab)}}
    made = config_of("seq2seq", groups=["syntax", "coarse"], max_length=8, encode=section)
    run = encode(tmp_path, made, [pair("a", "很好", "很好很好"), pair("b", "很好", "很好")])
    assert_sound(run)
    cut, whole = run.rows
    sep = 3
    assert cut["target_cut"] and cut["input_ids"].count(sep) == 1 and cut["input_ids"][-1] != sep
    assert cut["coarse_ids"].count(sep) == 1 and cut["coarse_ids"][-1] != sep
    # [CLS] 很好 [SEP] 很好 很|: half a word keeps its place, its word is 很好 still.
    assert cut["coarse_index"] == [0, 1, 1, 2, 3, 3, 4]
    assert cut["coarse_token_type_ids"] == [0, 0, 0, 1, 1]
    assert cut["word_index"] == [-1, 0, 0, -1, 1, 1, 2]
    assert cut["coarse_ids"][1] == cut["coarse_ids"][3] == cut["coarse_ids"][4] == 6
    assert whole["coarse_index"] == [0, 1, 1, 2, 3, 3, 4]
    assert whole["coarse_ids"][-1] == whole["input_ids"][-1] == sep


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(STRINGS, STRINGS), min_size=1, max_size=5),
    st.integers(8, 24),
    st.none() | st.integers(1, 8),
    st.none() | st.integers(1, 4),
    st.sampled_from(["longest", "words"]),
)
def test_any_pair_gives_sound_rows(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[tuple[str, str]],
    length: int,
    max_source: int | None,
    max_target: int | None,
    match: str,
) -> None:
    made = config_of(
        "seq2seq",
        groups=ALL,
        max_length=length,
        encode={"seq2seq": {"max_source": max_source, "max_target": max_target}},
        graph={"match": match},
    )
    documents = [pair(str(i), a, b) for i, (a, b) in enumerate(texts)]
    run = encode(tmp_path_factory.mktemp("any"), made, documents)
    assert_sound(run)
    assert len(run.rows) + run.rejects.get("no_tokens", 0) == len(texts)
    for row in run.rows:
        source, target = texts[int(row["id"].removesuffix("#0"))]
        assert (row["text"], row["text_pair"]) == (source, target)
        assert row["input_ids"].count(3) == 2 - row["target_cut"]
        assert len(row["input_ids"]) <= length
        assert (max_source or length) >= row["token_type_ids"].count(0) - 2
        assert (max_target or (length - 3) // 2) >= row["token_type_ids"].count(1) - 1 + row["target_cut"]
