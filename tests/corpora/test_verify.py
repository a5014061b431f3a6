"""`verify` on whole folders: clean ones, and every way in which files can be wrong."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import corpora.verify.ids as ids
from corpora.manifest import MANIFEST
from corpora.schema import METADATA_KEY
from corpora.shards import size_and_hash
from corpora.verify import RULES, Problem, Report, verify
from tests.corpora import (
    test_verify_answers,
    test_verify_branch_tokens,
    test_verify_choices,
    test_verify_documents,
    test_verify_rows,
    test_verify_tree,
)
from tests.corpora.breaking import raw_folder
from tests.corpora.test_verify_branch_tokens import tokens_of
from tests.rows import (
    GROUPS,
    documents_schema,
    make_documents,
    make_rows,
    rows_schema,
    to_batch,
    write_folder,
)

TASK = "pretrain"
SCHEMA = rows_schema(TASK, GROUPS)
ROWS = make_rows(1, TASK, GROUPS, 40)
FIRST, SECOND = "train-00000-of-00002.arrow", "train-00001-of-00002.arrow"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    splits = {"train": [ROWS[:20], ROWS[20:]], "dev": [ROWS[:5]]}
    return write_folder(tmp_path / "data", SCHEMA, splits, task=TASK, max_batch_rows=8)


def edit(folder: Path, change) -> None:
    body = json.loads((folder / MANIFEST).read_bytes())
    change(body)
    (folder / MANIFEST).write_text(json.dumps(body))


def admit(folder: Path) -> None:
    """Make the manifest agree with the size and hash of every shard, as a forger would."""

    def change(body: dict) -> None:
        for split in body["splits"].values():
            for shard in split["shards"]:
                shard["bytes"], shard["sha256"] = size_and_hash(str(folder / shard["name"]))

    edit(folder, change)


def rewrite(folder: Path, name: str, schema: pa.Schema, batches: list) -> None:
    with pa.ipc.new_file(folder / name, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    admit(folder)


def flip(path: Path, *at: int) -> None:
    raw = bytearray(path.read_bytes())
    for place in at:
        raw[place] ^= 0xFF
    path.write_bytes(raw)


def damage_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_bytes((folder / MANIFEST).read_bytes()[:-40])


def swap(folder: Path) -> None:
    (folder / FIRST).rename(folder / "x")
    (folder / SECOND).rename(folder / FIRST)
    (folder / "x").rename(folder / SECOND)


def truncate(folder: Path) -> None:
    (folder / FIRST).write_bytes((folder / FIRST).read_bytes()[:-100])


def truncate_and_admit(folder: Path) -> None:
    truncate(folder)
    admit(folder)


def other_metadata(**changes):
    def change(folder: Path) -> None:
        schema = rows_schema(TASK, GROUPS, **changes)
        rewrite(folder, SECOND, schema, [to_batch(ROWS[20:], schema)])

    return change


def other_raw_metadata(raw: bytes | None):
    def change(folder: Path) -> None:
        schema = SCHEMA.with_metadata({} if raw is None else {METADATA_KEY: raw})
        rewrite(folder, SECOND, schema, [to_batch(ROWS[20:], schema)])

    return change


def other_columns(change_table):
    def change(folder: Path) -> None:
        batch = change_table(to_batch(ROWS[20:], SCHEMA))
        rewrite(folder, SECOND, batch.schema, [batch])

    return change


def repeat_id(folder: Path) -> None:
    rows = [{**row, "id": ROWS[3]["id"]} if i == 7 else row for i, row in enumerate(ROWS[20:])]
    rewrite(folder, SECOND, SCHEMA, [to_batch(rows[:6], SCHEMA), to_batch(rows[6:], SCHEMA)])


def wild_offsets(folder: Path) -> None:
    """List offsets that point far outside their values."""
    lengths = [len(row["input_ids"]) for row in ROWS[20:28]]  # of the shard's first record batch
    good = np.concatenate([[0], np.cumsum(lengths)]).astype("<i4")
    wild = good + np.where(np.arange(len(good)) > 4, 1 << 30, 0).astype("<i4")
    raw = (folder / SECOND).read_bytes()
    assert good.tobytes() in raw
    (folder / SECOND).write_bytes(raw.replace(good.tobytes(), wild.tobytes(), 1))
    admit(folder)


def bad_utf8(folder: Path) -> None:
    raw = (folder / SECOND).read_bytes()
    at = raw.index(ROWS[25]["id"].encode())
    (folder / SECOND).write_bytes(raw[:at] + b"\xff" + raw[at + 1 :])
    admit(folder)


CASES = [
    ("manifest", "missing", lambda f: (f / MANIFEST).unlink(), "the run did not finish"),
    ("manifest", "no-folder", shutil.rmtree, "does not exist"),
    ("manifest", "damaged", damage_manifest, "cannot be read"),
    ("manifest", "newer", lambda f: edit(f, lambda b: b.update(manifest_version=2)), "matching release"),
    ("manifest", "escape", lambda f: edit(f, lambda b: b["splits"]["train"]["shards"][0].update(name=f"../data/{FIRST}")), "is not of the form"),
    ("manifest_totals", "rows", lambda f: edit(f, lambda b: b["splits"]["train"].update(rows=41)), "rows of split 'train': 41, shards sum up to 40"),
    ("manifest_totals", "rejects", lambda f: edit(f, lambda b: b["splits"]["train"].update(rejects={"bad_json": 1})), "rejects"),
    ("manifest_totals", "counters", lambda f: edit(f, lambda b: b["splits"]["train"].update(counters={})), "counters"),
    ("shard_sequence", "order", lambda f: edit(f, lambda b: b["splits"]["train"]["shards"].reverse()), "is shard 0 of 2"),
    ("missing_shard", "gone", lambda f: (f / FIRST).unlink(), "cannot be read"),
    ("missing_shard", "folder", lambda f: ((f / FIRST).unlink(), (f / FIRST).mkdir()), "cannot be read"),
    ("extra_shard", "extra", lambda f: shutil.copy(f / FIRST, f / "train-00002-of-00002.arrow"), "is not in manifest.json"),
    ("bytes", "other", lambda f: edit(f, lambda b: b["splits"]["dev"]["shards"][0].update(bytes=99)), "the manifest says 99"),
    ("sha256", "flipped", lambda f: flip(f / FIRST, 8), "the manifest says"),
    ("unreadable", "truncated", truncate_and_admit, "not a whole Arrow IPC file"),
    ("unreadable", "foreign", lambda f: ((f / FIRST).write_text("hello " * 50), admit(f)), "not a whole Arrow IPC file"),
    ("unreadable", "empty", lambda f: ((f / FIRST).write_bytes(b""), admit(f)), "not a whole Arrow IPC file"),
    ("metadata", "none", other_raw_metadata(None), "not a treegraft shard"),
    ("metadata", "no-json", other_raw_metadata(b"{"), "'treegraft' metadata of its Arrow schema is damaged"),
    ("metadata", "no-text", other_raw_metadata(b"{\xff}"), "'treegraft' metadata of its Arrow schema is damaged"),
    ("metadata", "deep", other_raw_metadata(b"[" * 10**5), "'treegraft' metadata of its Arrow schema is damaged"),
    ("metadata", "no-mapping", other_raw_metadata(b"[]"), "mapping"),
    ("metadata", "version", other_raw_metadata(b'{"schema_version": 99}'), "schema version 99"),
    ("metadata", "stage", other_metadata(stage="annotate"), "stage is 'annotate', the manifest says 'encode'"),
    ("metadata", "task", other_metadata(task="tag"), "task is 'tag'"),
    ("metadata", "fingerprint", other_metadata(fingerprint="other"), "fingerprint"),
    ("metadata", "differs", other_metadata(max_length=65), f"differs from that of {FIRST}"),
    ("metadata", "lacks", other_metadata(special_ids=None), "special_ids"),
    ("metadata", "lacks-group", other_metadata(max_positions=None), "max_positions: missing, but the shard has 'tree' columns"),
    ("metadata", "wrong-type", other_metadata(vocab_size="many"), "vocab_size"),
    ("schema", "missing", other_columns(lambda b: b.drop_columns(["word_heads"])), "column 'word_heads' is missing"),
    ("schema", "extra", other_columns(lambda b: b.append_column("note", pa.array(["x"] * 20))), "unexpected column 'note'"),
    ("schema", "type", other_columns(lambda b: b.set_column(4, "token_type_ids", b.column(4).cast(pa.list_(pa.int64())))), "column 'token_type_ids': expected"),
    ("rows", "fewer", lambda f: rewrite(f, SECOND, SCHEMA, [to_batch(ROWS[20:39], SCHEMA)]), "19 rows, the manifest says 20"),
    ("invalid_arrow", "offsets", wild_offsets, "record batch 0"),
    ("invalid_arrow", "utf8", bad_utf8, "UTF8"),
    ("duplicate_id", "other-shard", repeat_id, f"the id is that of {FIRST} row 3"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "name", "change", "detail"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_broken_folder_is_found(rule, name, change, detail, folder):
    assert verify(str(folder)).ok
    change(folder)
    report = verify(str(folder))
    assert set(report.rule_counts) == {rule}, "\n".join(report.render())
    assert any(detail in problem.detail for problem in report.problems), "\n".join(report.render())


def test_every_rule_is_shown_to_fire():
    cases = [
        case.rule
        for module in (
            test_verify_rows,
            test_verify_tree,
            test_verify_branch_tokens,
            test_verify_documents,
            test_verify_answers,
            test_verify_choices,
        )
        for case in module.CASES
    ]
    cases += [case.rule for case in test_verify_rows.CLASSIFY_CASES + test_verify_rows.TAG_CASES]
    cases += [case.rule for case in test_verify_tree.DEEP_CASES + test_verify_choices.EMPTY]
    cases += [rule for rule, *_ in test_verify_answers.WINDOWS] + [
        c.rule for _, c in test_verify_choices.TARGETS
    ]
    elsewhere = {"graph", "coarse_text"}  # in test_verify_branch_tokens and tests/pipelines/test_recoarse
    assert {*cases, *elsewhere, *(case[0] for case in CASES)} == set(RULES)


def test_swapped_shards_are_found(folder):
    swap(folder)
    report = verify(str(folder))
    assert {p.shard for p in report.problems} == {FIRST, SECOND} and not report.ok


def test_c23_a_half_written_shard_is_found(folder):
    truncate(folder)
    assert set(verify(str(folder)).rule_counts) == {"bytes", "unreadable"}


def test_temporaries_of_a_dead_writer_and_other_files_are_no_problem(folder):
    (folder / ".tmp-host-1-0-train-00000-of-00002.arrow").write_bytes(b"half")
    (folder / "README.txt").write_text("mine")
    (folder / "rejects").mkdir()
    assert verify(str(folder)).ok


def test_nothing_outside_the_folder_is_read(folder, monkeypatch):
    secret = folder.parent / FIRST
    secret.write_bytes(b"secret")
    edit(folder, lambda b: b["splits"]["train"]["shards"][0].update(name=f"../{FIRST}"))
    opened = []
    import corpora.files as files

    real = files.open_read
    monkeypatch.setattr(files, "open_read", lambda path: opened.append(path) or real(path))
    assert not verify(str(folder)).ok
    assert opened and all(Path(path).parent == folder for path in opened)


def test_ids_may_repeat_in_another_split_but_not_in_their_own(folder):
    assert verify(str(folder)).ok  # dev holds rows of train
    repeat_id(folder)
    (problem,) = verify(str(folder)).problems
    assert (problem.shard, problem.row, problem.id) == (SECOND, 7, ROWS[3]["id"])


def test_duplicates_are_found_whatever_the_number_of_passes(tmp_path, monkeypatch):
    rows = [{**ROWS[0], "id": f"d{n % 70}"} for n in range(100)]
    path = raw_folder(
        tmp_path / "f", SCHEMA, [[to_batch(rows[:50], SCHEMA)], [to_batch(rows[50:], SCHEMA)]], "encode", TASK
    )
    found = []
    for per_pass in (20_000_000, 7):
        monkeypatch.setattr(ids, "PER_PASS", per_pass)
        report = verify(path)
        found.append(report.rule_counts)
        assert {(p.shard, p.row) for p in report.problems} <= {(SECOND, n - 50) for n in range(70, 100)}
    monkeypatch.setattr(ids, "_COMPARED", 3)
    found.append(verify(path).rule_counts)
    assert found == [{"duplicate_id": 30}] * 3


def test_equal_hashes_of_different_ids_are_no_duplicates(folder, monkeypatch):
    monkeypatch.setattr(ids, "hash_ids", lambda array: np.zeros(len(array), np.uint64))
    assert verify(str(folder)).ok
    repeat_id(folder)
    assert verify(str(folder)).rule_counts == {"duplicate_id": 1}


def test_problems_are_bounded_and_all_are_counted(tmp_path):
    rows = [
        {**row, "id": "x\x1b[31m" * 99 + str(i), "branch_triples": [5] * 99, "branch_parents": [0] * 99}
        for i, row in enumerate(ROWS)
    ]
    path = raw_folder(tmp_path / "f", SCHEMA, [[to_batch(rows, SCHEMA)]], "encode", TASK)
    report = verify(path)
    assert report.rule_counts == {"branch_triples": 40} and len(report.problems) == 20
    text = report.render()
    assert "  branch_triples: 40, first 20 shown - must hold: one triple of the graph per branch" in text
    assert all("\x1b" not in line and len(line) < 800 for line in text)  # ids reach a terminal


def test_the_first_problem_reads_well(tmp_path):
    problem = Problem("train-00000-of-00001.arrow", 1234, "dfs", "word 3 ...", "doc#0")
    assert str(problem) == "train-00000-of-00001.arrow row 1,234 ('doc#0'): dfs: word 3 ..."
    assert str(Problem("", None, "manifest", "gone")) == "manifest: gone"
    assert Report().ok and not Report([problem]).ok


def test_progress_is_told(folder):
    told = []
    verify(str(folder), progress=lambda done, total: told.append((done, total)))
    assert told[0] == (8, 45) and told[-1] == (45, 45) and told == sorted(told)


@pytest.mark.parametrize(("stage", "task"), [("encode", TASK), ("encode", "tag"), ("annotate", "classify")])
def test_no_damage_to_a_shard_makes_verify_fail(stage, task, tmp_path):
    """Random bytes changed, with a manifest that vouches for them: a report, never an exception."""
    rng = random.Random(7)
    if stage == "encode":
        rows, schema = make_rows(1, task, GROUPS, 40), rows_schema(task, GROUPS)
    else:
        rows, schema = make_documents(1, 40, pair=True), documents_schema(pair=True)
    name = "train-00000-of-00001.arrow"
    folder = write_folder(
        tmp_path / "f", schema, {"train": [rows]}, stage=stage, task=task, max_batch_rows=16
    )
    sound = (folder / name).read_bytes()
    found: set[str] = set()
    for _ in range(150):
        raw = bytearray(sound)
        for _ in range(rng.choice([1, 3, 30])):
            raw[rng.randrange(len(raw))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        (folder / name).write_bytes(raw)
        admit(folder)
        found |= set(verify(str(folder), branch_tokens=tokens_of).rule_counts)
    assert len(found) > 8


def test_one_of_a_thing_is_singular():
    whole = Report([], {"shards": 1, "rows": 1, "tokens": 2, "words": 0, "bytes": 1})
    assert whole.render() == ["ok: 1 shard, 1 row, 2 tokens, 1 byte; every rule holds"]
    wrong = Report([Problem("", None, "manifest", "none")], {"shards": 2, "rows": 0}, {"manifest": 1})
    assert wrong.render()[1] == "1 problem in 2 shards, 0 rows:"
    wrong.rule_counts["manifest"] = 1200
    assert wrong.render()[1] == "1,200 problems in 2 shards, 0 rows:"
