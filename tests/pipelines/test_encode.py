from __future__ import annotations

import hashlib
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corpora.schema import read_metadata, row_schema
from corpora.shards import open_shard
from pipelines.config import ConfigError
from pipelines.encode import stage as module
from pipelines.encode.stage import Encode
from pipelines.engine import RunError
from tests.pipelines.annotated import SAMPLES, Encoded, config_of, document, encode, make_stage, tagged

ALL = ("syntax", "coarse", "tree")
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SENTENCES = [
    "我在北京。",
    "Apple pie is good！",
    "他们去了故宫，很高兴。\n",
    "한국어 🇨🇳👨‍👩‍👧。",
    "2020年3月，",
]


def vocab(folder: Path, *tokens: str) -> dict[str, str]:
    """An `encode` section whose tokenizer knows exactly these tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*SPECIALS, *tokens]) + "\n", encoding="utf-8")
    return {"tokenizer": str(folder / "vocab.txt")}


def pieces(run: Encoded, tokens: str, column: str = "input_ids", row: int = 0) -> str:
    names = [*(s.strip("[]") for s in SPECIALS), *tokens]
    return " ".join(names[i] for i in run.rows[row][column])


def corpus(count: int = 12, size: int = 25, **fields: Any) -> list[dict[str, Any]]:
    made = []
    for i in range(count):
        rng = random.Random(i)
        made.append(document(f"d{i}", "".join(rng.choice(SENTENCES) for _ in range(size)), **fields))
    return made


def assert_sound(run: Encoded) -> None:
    assert run.report.ok, "\n".join(run.report.render())


# --- whole runs -------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", ["pair", "single"])
def test_pretraining_rows_pass_every_rule(tmp_path: Path, segments: str) -> None:
    pretrain = {"segments": segments, "duplicates": 2}
    run = encode(tmp_path, config_of("pretrain", groups=ALL, encode={"pretrain": pretrain}), corpus())
    assert_sound(run)
    assert len(run.rows) == run.counters["rows"] > 50
    assert run.counters["records"] == 12
    assert run.counters["tokens"] == sum(len(r["input_ids"]) for r in run.rows)
    assert run.counters["unknown_tokens"] == sum(r["input_ids"].count(1) for r in run.rows)
    assert run.counters["branches"] == sum(len(r["branch_triples"]) for r in run.rows) > 0
    assert run.counters["coarse_tokens"] == sum(i not in (2, 3) for r in run.rows for i in r["coarse_ids"])
    assert {r["label"] for r in run.rows} == ({0, 1} if segments == "pair" else {None})
    numbers: dict[str, list[int]] = {}
    for row in run.rows:
        doc_id, number = row["id"].split("#")
        numbers.setdefault(doc_id, []).append(int(number))
    assert all(found == list(range(len(found))) for found in numbers.values())


@pytest.mark.parametrize("match", ["longest", "words"])
def test_labelled_rows_pass_every_rule(tmp_path: Path, match: str) -> None:
    config = config_of("classify", groups=ALL, max_length=48, graph={"match": match, "max_length": 64})
    run = encode(tmp_path / "one", config, corpus(label="好"), labels=["坏", "好"])
    assert_sound(run)
    assert [r["label"] for r in run.rows] == [1] * 12
    assert run.counters["truncated_rows"] == sum(len(r["input_ids"]) >= 46 for r in run.rows)
    assert run.counters["branches"] > 0


def test_pairs_pass_every_rule(tmp_path: Path) -> None:
    config = config_of("classify", groups=ALL, input={"text_pair": "b", "score": True})
    documents = [
        document(f"d{i}", "我在北京。" * (i + 1), pair=True, text_pair=other, label_score=float(i))
        for i, other in enumerate(["他们很好。" * 9, None, "他们很好。\n是的。"])
    ]
    run = encode(tmp_path, config, documents)
    assert_sound(run)
    assert [r["label_score"] for r in run.rows] == [0.0, 1.0, 2.0]
    assert [r["text_pair"] for r in run.rows] == [d["text_pair"] for d in documents]
    assert [r["input_ids"].count(3) for r in run.rows] == [2, 1, 2]
    assert run.rows[2]["sentence_index"][-1] == 4


def test_column_groups_are_those_asked_for(tmp_path: Path) -> None:
    for groups in ((), ("syntax",), ("coarse",), ("tree",)):
        config = config_of("classify", groups=groups)
        run = encode(tmp_path / "-".join(("g", *groups)), config, corpus(2, label="x"), labels=["x"])
        assert_sound(run)
        assert list(run.rows[0]) == [f.name for f in row_schema("classify", groups)]


def test_metadata_says_what_the_values_mean(tmp_path: Path) -> None:
    run = encode(
        tmp_path, config_of("classify", groups=ALL, max_length=40), corpus(1, label="x"), labels=["x"]
    )
    facts = read_metadata(open_shard(str(run.folder / "train-00000-of-00001.arrow")).schema)
    assert facts["stage"] == "encode"
    assert facts["labels"] == ["x"]
    assert facts["special_ids"] == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert facts["max_length"] == facts["tree_max_length"] == facts["max_positions"] == 40
    assert facts["tokenizer"]["name"] == "vocab.txt"
    assert facts["coarse_vocab_size"] == 5000
    assert facts["graph"]["triples"] > 0
    assert facts["fingerprint"] == run.manifest.config_fingerprint


# --- the same bytes ---------------------------------------------------------------------------


def test_rows_do_not_depend_on_batches_or_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for task in ("pretrain", "classify"):
        config = config_of(task, groups=ALL)
        want = encode(tmp_path / f"{task}1", config, corpus(label="x"), labels=["x"])
        with monkeypatch.context() as patch:
            patch.setattr(module, "CHUNK_ROWS", 3)
            patch.setattr(module, "CHUNK_TOKENS", 50)
            other = encode(tmp_path / f"{task}2", config, corpus(label="x"), labels=["x"], batch=5)
        shard = "train-00000-of-00001.arrow"
        assert (want.folder / shard).read_bytes() == (other.folder / shard).read_bytes()


def test_c06_rows_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.pipelines.annotated import *\n"
        "docs = [document(f'd{i}', '我在北京。苹果很好。' * 9) for i in range(4)]\n"
        "config = config_of('pretrain', groups=('syntax', 'coarse', 'tree'))\n"
        "print(encode(Path(sys.argv[1]), config, docs).manifest.model_dump_json())"
    )
    seen = set()
    for seed in ("0", "5"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        command = [sys.executable, "-c", script, str(tmp_path / seed)]
        root = Path(__file__).parents[2]
        seen.add(subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True).stdout)
    assert len(seen) == 1


def test_a_stage_travels_light(tmp_path: Path) -> None:
    stage = make_stage(tmp_path, config_of("pretrain", groups=ALL))
    stage.setup()
    fingerprint = stage.fingerprint
    raw = pickle.dumps(stage)
    assert len(raw) < 20_000
    copy = pickle.loads(raw)
    copy.setup()
    assert copy.fingerprint == fingerprint
    assert copy.schema().equals(stage.schema(), check_metadata=True)


def test_the_fingerprint_is_of_what_shapes_rows(tmp_path: Path) -> None:
    def of(**changes: Any) -> str:
        return make_stage(tmp_path, config_of("pretrain", **changes)).fingerprint

    assert of() == of(run={"block_bytes": 4096}, output="elsewhere")
    different = [of(), of(seed=1), of(max_length=33), of(groups=["coarse"]), of(encode={"lowercase": False})]
    different.append(of(encode=vocab(tmp_path, "a")))
    assert len(set(different)) == len(different)


def test_fingerprint_and_metadata_name_the_lexicon_by_its_content(tmp_path: Path) -> None:
    def made(name: str, content: str) -> Encode:
        (tmp_path / name).write_text(content, encoding="utf-8")
        coarse = {"vocab": str(SAMPLES / "coarse_vocab.txt"), "phrases": str(tmp_path / name)}
        return make_stage(tmp_path, config_of("pretrain", groups=["coarse"], encode={"coarse": coarse}))

    one, same, other = (
        made("a.txt", "more than\n"),
        made("b.txt", "more than\n"),
        made("a.tsv", "one of\t3\n"),
    )
    plain = make_stage(tmp_path, config_of("pretrain", groups=["coarse"]))
    assert len({one.fingerprint, other.fingerprint, plain.fingerprint}) == 3
    assert one.metadata()["lexicon"] == {
        "name": "a.txt",
        "sha256": hashlib.sha256(b"more than\n").hexdigest(),
    }
    assert one.metadata()["lexicon"]["sha256"] == same.metadata()["lexicon"]["sha256"]
    assert "lexicon" not in plain.metadata() and other.identities()["lexicon"]["name"] == "a.tsv"


# --- cases ------------------------------------------------------------------------------------


def test_c02_labels_stay_with_source_tokens(tmp_path: Path) -> None:
    config = config_of("tag", groups=ALL, encode=vocab(tmp_path, *"北京好首都年", "2020", "##20", "20"))
    triples = "北京\t类别\t首都\n"
    documents = [
        tagged("a", ["北", "京", "好"], ["B-LOC", "I-LOC", "O"]),
        tagged("b", ["2020", "年"], ["B-TIME", "I-TIME"]),
        tagged("c", ["202020", "年"], ["B-TIME", "I-TIME"]),
        tagged("d", ["20", "20", "年"], ["O", "B-TIME", "I-TIME"]),
    ]
    labels = ["O", "B-LOC", "I-LOC", "B-TIME", "I-TIME"]
    run = encode(tmp_path, config, documents, labels=labels, triples=triples)
    assert_sound(run)
    first = run.rows[0]
    assert first["token_labels"] == [-100, 1, 2, 0, -100]
    on_tree = [-100 if i < 0 else first["token_labels"][i] for i in first["tree_trunk_index"]]
    assert on_tree == [-100, 1, 2, -100, -100, 0, -100]
    assert first["tree_branch"] == [0, 0, 0, 1, 1, 0, 0]
    assert [r["token_labels"] for r in run.rows[1:]] == [
        [-100, 3, 4, -100],
        [-100, 3, -100, 4, -100],
        [-100, 0, 3, 4, -100],
    ]
    for row, source in zip(run.rows, documents, strict=True):
        assert sum(label != -100 for label in row["token_labels"]) == len(source["tag_labels"])
        assert (row["tag_starts"], row["tag_stops"]) == (source["tag_starts"], source["tag_stops"])


def test_c02_a_label_found_only_in_dev_is_named(tmp_path: Path) -> None:
    documents = [tagged("x", ["北", "京"], ["B-LOC", "B-ORG"])]
    with pytest.raises(
        RunError, match=r"document 'x' of split 'train' has the label 'B-ORG'.*none of 'O', 'B-LOC'"
    ):
        encode(tmp_path / "a", config_of("tag"), documents, labels=["O", "B-LOC"])
    with pytest.raises(RunError, match=r"document 'd1'.*label 'neutral'.*`encode\.labels`"):
        documents = [document("d0", "好", label="good"), document("d1", "好", label="neutral")]
        encode(tmp_path / "b", config_of("classify"), documents, labels=["bad", "good"])


def test_c02_medical_times_keep_a_label_a_character(tmp_path: Path, real_data: Path) -> None:
    lines = (real_data / "kbert/medical_ner/dev.tsv").read_text(encoding="utf-8").split("\n")[1:200]
    documents = []
    for number, line in enumerate(filter(None, lines)):
        text, labels = line.split("\t")[0].split(" "), line.split("\t")[1].split(" ")
        documents.append(tagged(str(number), text, labels))
    names = sorted({name for d in documents for name in d["tag_labels"]})
    assert any("13:09" in d["text"] or ":" in d["text"] for d in documents)
    run = encode(tmp_path, config_of("tag", max_length=256), documents, labels=names)
    assert_sound(run)
    kept = sum(label != -100 for r in run.rows for label in r["token_labels"])
    assert kept == sum(len(d["tag_labels"]) for d in documents) - run.counters["labels_truncated"]


def test_c05_the_trunk_comes_first_and_branches_are_kept_whole(tmp_path: Path) -> None:
    tokens = "今天苹果很好水"
    encoding = vocab(tmp_path, *tokens)

    def run(text: str, tree: int) -> Encoded:
        config = config_of(
            "classify",
            groups=["tree"],
            max_length=8,
            encode=encoding,
            graph={"max_length": tree, "max_positions": 16},
        )
        folder = tmp_path / f"{text}{tree}"
        made = encode(folder, config, [document("a", text)], triples="苹果\t类别\t水果\n")
        assert_sound(made)
        return made

    tight, wide = run("今天苹果很好", 9), run("今天苹果很好", 10)
    assert pieces(tight, tokens, "tree_ids") == "CLS 今 天 苹 果 很 好 SEP"
    assert tight.counters["dropped_budget"] == 1
    assert pieces(wide, tokens, "tree_ids") == "CLS 今 天 苹 果 水 果 很 好 SEP"
    # Truncation keeps [SEP], and no branch outlives a part of its anchor.
    cut = run("今天今天今苹果好", 10)
    assert pieces(cut, tokens) == "CLS 今 天 今 天 今 苹 SEP"
    assert pieces(cut, tokens, "tree_ids") == pieces(cut, tokens)
    assert cut.counters["dropped_anchor_cut"] == 1


def test_c08_a_word_without_pieces_shifts_nothing(tmp_path: Path) -> None:
    text = "Alice \u200b joined Acme"
    row = document("a", text, label="x")
    row |= {
        "sentence_starts": [0],
        "sentence_stops": [19],
        "word_starts": [0, 6, 8, 15],
        "word_stops": [5, 7, 14, 19],
        "word_heads": [2, 2, 2, 2],
        "word_deprels": ["subj", "dep", "root", "obj"],
        "word_pos": ["X"] * 4,
    }
    config = config_of(
        "classify", groups=["syntax", "coarse"], encode=vocab(tmp_path, "alice", "joined", "ac", "##me")
    )
    run = encode(tmp_path, config, [row], labels=["x"])
    assert_sound(run)
    assert run.rows[0]["word_index"] == [-1, 0, 1, 2, 2, -1]
    assert run.rows[0]["word_heads"] == [1, 1, 1]
    assert run.rows[0]["word_deprels"] == [3, 2, 1]
    assert len(run.rows[0]["coarse_ids"]) == 5
    assert run.counters["words_without_tokens"] == 1
    units = tagged("a", ["Alice", "\u200b", "joined", "Acme"], ["O", "O", "O", "B"], joiner=" ")
    labelled = encode(
        tmp_path / "tag",
        config_of("tag", encode=vocab(tmp_path, "alice", "joined", "ac", "##me")),
        [units],
        labels=["O", "B"],
    )
    assert labelled.rows[0]["token_labels"] == [-100, 0, 0, 0, 1, -100, -100]
    assert labelled.counters["units_without_pieces"] == 1


def test_c18_text_yields_no_control_ids(tmp_path: Path) -> None:
    text = "请写[MASK]和[SEP]，再写[PAD][ENT]。[CLS]好。"
    for task in ("pretrain", "classify"):
        run = encode(
            tmp_path / task,
            config_of(task, groups=ALL, max_length=64),
            [document(f"d{i}", text) for i in range(3)],
        )
        assert_sound(run)  # counts [SEP], looks for stray control ids on trunk, coarse tokens and branches
        for row in run.rows:
            assert set(row["input_ids"][1:-1]) & {0, 2, 4} == set()
            assert row["input_ids"].count(3) == 1 + (row["text_pair"] is not None)
    run = encode(
        tmp_path / "units",
        config_of("tag"),
        [tagged("a", ["[MASK]", "[SEP]", "好"], list("OOO"))],
        labels=["O"],
    )
    assert_sound(run)
    triples = "北京\t类别\t[SEP]\n北京\t类别\t[MASK]好\n"
    run = encode(
        tmp_path / "kg",
        config_of("classify", groups=["tree"], max_length=64),
        [document("a", "北京")],
        triples=triples,
    )
    assert_sound(run)
    assert run.counters["branches"] == 2


def test_c20_entities_at_the_edges(tmp_path: Path) -> None:
    tokens = "苹果水我爱和"
    texts = ["苹果", "我爱苹果", "苹果和苹果"]
    config = config_of("classify", groups=["tree"], encode=vocab(tmp_path, *tokens))
    run = encode(tmp_path, config, [document(t, t) for t in texts], triples="苹果\t类别\t水果\n")
    assert_sound(run)
    assert pieces(run, tokens, "tree_ids", 0) == "CLS 苹 果 水 果 SEP"
    assert run.rows[0]["tree_soft_positions"] == [0, 1, 2, 3, 4, 3]
    assert run.rows[0]["tree_mention"] == [-1, 0, 0, 0, 0, -1]
    assert pieces(run, tokens, "tree_ids", 1) == "CLS 我 爱 苹 果 水 果 SEP"
    assert run.rows[2]["tree_branch"] == [0, 0, 0, 1, 1, 0, 0, 0, 2, 2, 0]
    assert run.rows[2]["tree_mention"] == [-1, 0, 0, 0, 0, -1, 1, 1, 1, 1, -1]


def test_c21_one_sentence_documents_and_empty_ones(tmp_path: Path) -> None:
    few = encode(tmp_path / "a", config_of("pretrain"), [document(t, t) for t in ("甲。", "乙。", "丙。")])
    assert [r["label"] for r in few.rows] == [1, 1, 1]
    assert few.counters["single_sentence_documents"] == few.counters["records"] == 3
    one = encode(tmp_path / "b", config_of("pretrain"), [document("a", "甲。\n乙。\n丙。")])
    assert [(r["label"], r["text"][0]) for r in one.rows] == [(0, "甲")]
    assert one.counters["pairs_without_other_document"] == 1
    for number, documents in enumerate([[], [document("a", "\u200b\x00")]]):
        nothing = encode(tmp_path / str(number), config_of("pretrain", groups=ALL), documents)
        assert_sound(nothing)
        assert nothing.rows == []
    assert nothing.counters["documents_without_tokens"] == 1


def test_c27_joined_emoji_are_not_cut(tmp_path: Path) -> None:
    run = encode(tmp_path, config_of("classify", max_length=8), [document("a", "我👨‍👩‍👧在北京")])
    assert_sound(run)
    spans = list(zip(run.rows[0]["char_starts"], run.rows[0]["char_stops"], strict=True))
    assert (7, 8) in spans  # 北 is the seventh code point
    units = [*"abcde", "👨", "\u200d", "👩", "\u200d", "👧"]
    cut = encode(
        tmp_path / "tag", config_of("tag", max_length=10), [tagged("a", units, ["O"] * 10)], labels=["O"]
    )
    assert max(cut.rows[0]["char_stops"]) == 5
    assert cut.counters["labels_truncated"] == 5


# --- labels and rejects -----------------------------------------------------------------------


def test_documents_without_tokens_are_rejected(tmp_path: Path) -> None:
    texts = ["好", "\u200b\x00", "我"]
    documents = [document(t + str(i), t, label=str(i)) for i, t in enumerate(texts)]
    run = encode(tmp_path, config_of("classify"), documents, labels=["0", "1", "2"])
    assert [(r["id"], r["text"], r["label"]) for r in run.rows] == [("好0#0", "好", 0), ("我2#0", "我", 2)]
    assert run.rejects == {"no_tokens": 1}
    line = (run.folder / "rejects" / "train-00000-of-00001.jsonl").read_text(encoding="utf-8")
    assert '"path": "docs.jsonl"' in line and '"byte": 3' in line
    pairs = [document("a", "好", pair=True, text_pair="\x00"), document("b", "好", pair=True, text_pair="好")]
    both = encode(tmp_path / "pair", config_of("classify", input={"text_pair": "b"}), pairs)
    assert_sound(both)
    assert (len(both.rows), both.rejects) == (1, {"no_tokens": 1})


def test_sequences_without_labels(tmp_path: Path) -> None:
    documents = [
        tagged("a", ["好"], ["O"]),
        tagged("b", ["我", "好"], None),  # source tokens to be labelled
        document("c", "好"),
        tagged("d", [], []),
    ]
    run = encode(tmp_path, config_of("tag"), documents, labels=["O"])
    assert_sound(run)
    assert [r["token_labels"] for r in run.rows] == [[-100, 0, -100], [-100] * 4]
    assert run.rejects == {"no_labels": 1, "no_tokens": 1}


def test_a_missing_class_label_is_null(tmp_path: Path) -> None:
    run = encode(
        tmp_path, config_of("classify"), [document("a", "好"), document("b", "好", label="x")], labels=["x"]
    )
    assert [r["label"] for r in run.rows] == [None, 0]


# --- found before any work --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encode": {"tokenizer": "none.txt"}}, r"encode\.tokenizer: file .*none\.txt does not exist"),
        (
            {"groups": ["coarse"], "encode": {"coarse": {"vocab": "no.txt"}}},
            r"encode\.coarse\.vocab: file .*no\.txt",
        ),
        (
            {
                "groups": ["coarse"],
                "encode": {"coarse": {"vocab": str(SAMPLES / "coarse_vocab.txt"), "phrases": "no.tsv"}},
            },
            r"encode\.coarse\.phrases: file .*no\.tsv does not exist",
        ),
        ({"groups": ["tree"], "graph": {"max_length": 16}}, r"graph\.max_length is 16, less than .* 32"),
        ({"groups": ["tree"], "graph": {"max_positions": 31}}, r"graph\.max_positions is 31"),
        ({"encode": {"labels": ["a", "b", "a"]}}, "'a' is listed twice"),
    ],
)
def test_check_names_the_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    config = config_of("classify", **changes)
    with pytest.raises(ConfigError, match=message):
        Encode.check(config, str(tmp_path / "config.yaml"))


def test_check_passes_good_configs(tmp_path: Path) -> None:
    Encode.check(config_of("classify", groups=ALL), str(tmp_path / "config.yaml"))


# --- anything at all --------------------------------------------------------------------------

ANYTHING = st.text(
    st.one_of(
        st.sampled_from("ab北京。！\n \u0301\u200b\u200d한👨🇨🇳❤\ufe0fＡא\x00"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(ANYTHING, min_size=1, max_size=5),
    st.sampled_from(["pretrain", "classify", "tag"]),
    st.integers(8, 24),
)
def test_any_text_gives_sound_rows(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], task: str, length: int
) -> None:
    assume(task != "tag" or not any(text.isspace() for text in texts))  # readers refuse those
    make = (
        (lambda i, t: tagged(str(i), list(t), ["O"] * len(t)))
        if task == "tag"
        else (lambda i, t: document(str(i), t))
    )
    config = config_of(task, groups=ALL, max_length=length)
    run = encode(
        tmp_path_factory.mktemp("any"), config, [make(i, t) for i, t in enumerate(texts)], labels=["O"]
    )
    assert_sound(run)
    if task != "pretrain":
        assert len(run.rows) + sum(run.rejects.values()) == len(texts)
        assert all(r["text"] == texts[int(r["id"].removesuffix("#0"))] for r in run.rows)
