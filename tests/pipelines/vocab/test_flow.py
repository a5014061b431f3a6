"""The road from a corpus to its vocabularies: right counts, the same bytes however it is cut, and a second run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.config import Config
from pipelines.encode.tokenizer import load_tokenizer, parse_vocab
from pipelines.engine import RunError
from pipelines.section import ConfigError
from pipelines.vocab import steps
from pipelines.vocab.wordpiece import alphabet, character_forms, train
from tests.pipelines.dedup.running import options
from tests.pipelines.vocab.running import FILES, contents, found_lexicon, make, report, settings, write_corpus
from tests.pipelines.vocab.slow import bert_words


def test_the_fine_one_is_that_of_counts_made_at_once(tmp_path: Path) -> None:
    texts = write_corpus(tmp_path)
    made, _ = make(tmp_path, range_rows=50)
    counts = bert_words(texts, lowercase=True)
    characters = alphabet(character_forms(counts), lowercase=True, min_count=2)
    frequent = {word: count for word, count in counts.items() if count > 1}
    wanted = train(frequent, characters, 300, 2).entries
    assert contents(tmp_path)["vocab.txt"].decode().splitlines() == wanted
    assert made["fine"].entries == len(wanted) == 300
    told = report(tmp_path)["fine"]
    assert told["occurrences"] == counts.total()
    assert told["documents"] == len(texts)
    tokenizer = load_tokenizer(str(tmp_path / "out/vocab/vocab.txt"))
    ids = {word: tokenizer.encode_ids([word])[0] for word in counts}
    unknown = sum(n for word, n in counts.items() if tokenizer.unknown_id in ids[word])
    tokens = sum(n * len(ids[word]) for word, n in counts.items())
    assert told["coverage"] == {
        "tokens_per_word": round(tokens / counts.total(), 6),
        "unknown_words": round(unknown / counts.total(), 6),
    }


def test_blocks_and_ranges_of_any_size_give_the_same(tmp_path: Path) -> None:
    found = []
    for name, block_bytes, range_rows in (("a", 1024, 1 << 20), ("b", 1 << 20, 40), ("c", 3000, 333)):
        folder = tmp_path / name
        folder.mkdir()
        write_corpus(folder)
        make(folder, settings(folder, block_bytes), range_rows=range_rows)
        found.append({name: contents(folder)[name] for name in FILES if name != "manifest.json"})
    assert found[0] == found[1] == found[2]


def test_both_are_read_by_encode_and_what_is_counted_adds_up(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    made, said = make(tmp_path)
    for name in ("vocab.txt", "coarse_vocab.txt"):
        path = tmp_path / "out/vocab" / name
        entries = parse_vocab(path.read_bytes(), str(path), "encode.coarse.vocab")
        assert list(entries.values()) == list(range(len(entries)))
        assert len(entries) <= 500
    told = report(tmp_path)["coarse"]
    assert told["pieces"] + told["words"] + told["phrases"] + 5 == told["entries"] == made["coarse"].entries
    assert told["phrases"] > 0
    assert "new york" in (tmp_path / "out/vocab/coarse_vocab.txt").read_text(encoding="utf-8").splitlines()
    assert 0.5 < told["coverage"]["characters_in_whole_tokens"] < 1
    assert said.count("entries in") == 2


def test_nothing_is_left_of_the_work_and_a_second_run_finds_it_done(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    make(tmp_path)
    before = contents(tmp_path)
    assert sorted(p.name for p in (tmp_path / "out/vocab").iterdir()) == sorted([*FILES, "_work"])
    assert [p.name for p in (tmp_path / "out/vocab/_work").iterdir()] == ["lock"]
    _, said = make(tmp_path)
    assert said.count("already finished") == 3  # the annotated documents, too
    assert contents(tmp_path) == before


def test_another_config_needs_overwrite_and_leaves_the_other_vocabulary(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    make(tmp_path)
    before = contents(tmp_path)
    smaller = settings(tmp_path, vocab={"fine": {"size": 300}, "coarse": {"size": 90}})
    with pytest.raises(RunError, match=r"vocab\.coarse\.size: 500 -> 90"):
        make(tmp_path, smaller)
    make(tmp_path, smaller, options(tmp_path / "out", overwrite=True))
    after = contents(tmp_path)
    assert after["vocab.txt"] == before["vocab.txt"]
    assert after["coarse_vocab.txt"].count(b"\n") == 90
    assert len(report(tmp_path)["coarse"]["fell_out"]) == 20


def test_a_file_that_was_changed_is_not_taken_for_finished(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    make(tmp_path)
    before = contents(tmp_path)
    (tmp_path / "out/vocab/vocab.txt").write_text("[PAD]\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"vocab\.txt was changed after it was written"):
        make(tmp_path)
    make(tmp_path, None, options(tmp_path / "out", overwrite=True))
    assert contents(tmp_path) == before


def test_a_run_that_died_goes_on_with_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
        write_corpus(folder)
    make(whole)
    real, calls = steps.CountCoarse.strings, Counter[str]()

    def dies(self, table):
        calls["tables"] += 1
        if calls["tables"] == 3:
            raise MemoryError
        return real(self, table)

    monkeypatch.setattr(steps.CountCoarse, "strings", dies)
    with pytest.raises(MemoryError):
        make(broken)
    assert not (broken / "out/vocab/coarse_vocab.txt").exists()
    _, said = make(broken)
    assert "vocab, fine: already finished" in said
    blocks = len(list((broken / "out/annotated").glob("*.arrow")))
    assert blocks > 3
    assert calls["tables"] == blocks + 1  # the one that failed, twice
    names = ("vocab.txt", "coarse_vocab.txt", "report.json")
    assert [contents(broken)[n] for n in names] == [contents(whole)[n] for n in names]


def test_a_shard_changed_since_it_was_annotated_stops_it(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    make(tmp_path, fine=True)
    shard = next((tmp_path / "out/annotated").glob("*.arrow"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(RunError, match="was changed after it was written"):
        make(tmp_path, coarse=True)


def test_only_splits_that_train_are_counted_unless_others_are_named(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    (tmp_path / "b.txt").write_text("zzzz zzzz zzzz\n", encoding="utf-8")
    input_ = {"format": "text", "document": "line", "files": {"train": "a.txt", "dev": "b.txt"}}
    make(tmp_path, settings(tmp_path, input=input_))
    assert b"\nzzzz\n" not in contents(tmp_path)["coarse_vocab.txt"]
    both = settings(tmp_path, input=input_, vocab={"splits": ["dev"]})
    make(tmp_path, both, options(tmp_path / "out", overwrite=True))
    assert contents(tmp_path)["coarse_vocab.txt"].endswith(b"\nzzzz\n")
    with pytest.raises(ConfigError, match=r"vocab.splits: .*'tset'"):
        make(tmp_path, settings(tmp_path, vocab={"splits": ["tset"]}))


def test_a_corpus_without_words_gives_special_tokens_and_ascii(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("", encoding="utf-8")
    (tmp_path / "phrases.tsv").write_text("new york\n", encoding="utf-8")
    _, said = make(tmp_path, settings(tmp_path, vocab={}))
    assert len(contents(tmp_path)["vocab.txt"].splitlines()) == 5 + 68 + 36
    assert contents(tmp_path)["coarse_vocab.txt"].splitlines()[-1] == b"[MASK]"
    assert said.count("there are no words in what was counted (train)") == 2


def test_a_corpus_of_one_word(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Zebra\n", encoding="utf-8")
    (tmp_path / "phrases.tsv").write_text("new york\n", encoding="utf-8")
    make(tmp_path, settings(tmp_path, vocab={"fine": {"min_count": 1}, "coarse": {"min_count": 1}}))
    assert contents(tmp_path)["vocab.txt"].endswith(b"\nzebra\n")
    assert contents(tmp_path)["coarse_vocab.txt"].splitlines()[5:] == [b"zebra"]


# --- what is made for which config ----------------------------------------------------------------


def test_a_size_below_the_alphabet_says_the_least(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    with pytest.raises(ConfigError, match=r"vocab.fine.size: 100 .* at least 1\d\d, or fewer"):
        make(tmp_path, settings(tmp_path, vocab={"fine": {"size": 100}}))


def test_a_tokenizer_that_is_there_is_used(tmp_path: Path) -> None:
    from tests.pipelines.annotated import SAMPLES

    write_corpus(tmp_path)
    encode = {"tokenizer": str(SAMPLES / "vocab.txt"), "columns": []}
    with pytest.raises(ConfigError, match="no vocabulary is needed; pass --fine or --coarse"):
        make(tmp_path, settings(tmp_path, encode=encode))
    made, _ = make(tmp_path, settings(tmp_path, encode=encode), coarse=True)
    assert list(made) == ["coarse"]
    assert (
        made["coarse"].identities["tokenizer"]["sha256"]
        == load_tokenizer(encode["tokenizer"]).identity()["sha256"]
    )
    assert not (tmp_path / "out/vocab/vocab.txt").exists()
    made, _ = make(tmp_path, settings(tmp_path, encode=encode), fine=True)
    assert list(made) == ["fine"]


@pytest.mark.parametrize("name", ["no/vocab.txt", "no/tokenizer.json"])
def test_a_coarse_one_alone_needs_a_tokenizer(tmp_path: Path, name: str) -> None:
    write_corpus(tmp_path)
    encode = {"tokenizer": name, "columns": []}
    with pytest.raises(ConfigError, match=rf"encode.tokenizer: file .*{name} does not exist"):
        make(tmp_path, settings(tmp_path, encode=encode), coarse=True)
    assert not (tmp_path / "out").exists()


def test_a_wrong_lexicon_stops_before_any_work(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    (tmp_path / "phrases.tsv").write_bytes(b"\xff\n")
    with pytest.raises(ConfigError, match=r"encode.coarse.phrases: .*expected UTF-8"):
        make(tmp_path)
    assert not (tmp_path / "out").exists()


def test_phrases_that_were_found_before_are_used_and_told(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    encode = found_lexicon(tmp_path, (tmp_path / "phrases.tsv").read_text(encoding="utf-8"))
    _, said = make(tmp_path, settings(tmp_path, encode=encode))
    assert "encode.coarse.phrases should name it, too" in said
    assert report(tmp_path)["coarse"]["phrases"] > 0


def without_lexicon(folder: Path, **changes: object) -> Config:
    """A config that names no phrases."""
    vocab = folder / "out/vocab"
    encode = {
        "tokenizer": str(vocab / "vocab.txt"),
        "columns": ["coarse"],
        "coarse": {"vocab": str(vocab / "coarse_vocab.txt")},
    }
    return settings(folder, encode=encode, **changes)


def test_a_lexicon_that_came_or_went_since_is_what_differs(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    config = without_lexicon(tmp_path)
    _, said = make(tmp_path, config)
    assert f"`treegraft phrases {tmp_path / 'c.yaml'}` would find phrases" in " ".join(said.split())
    (tmp_path / "out/phrases").mkdir(parents=True)
    (tmp_path / "phrases.tsv").rename(tmp_path / "out/phrases/phrases.tsv")
    with pytest.raises(RunError, match=r"changed since:\n  phrases: none -> phrases.tsv\n"):
        make(tmp_path, config)
    make(tmp_path, config, replace(options(tmp_path / "out"), overwrite=True))
    (tmp_path / "out/phrases/phrases.tsv").unlink()
    with pytest.raises(RunError, match=r"changed since:\n  phrases: phrases.tsv -> none\n"):
        make(tmp_path, config)


def test_a_language_without_spaces_takes_no_lexicon_that_the_config_does_not_name(tmp_path: Path) -> None:
    write_corpus(tmp_path, documents=5)
    _, said = make(tmp_path, without_lexicon(tmp_path, language="zh-Hans"))
    assert "treegraft phrases" not in said
    (tmp_path / "out/phrases").mkdir(parents=True)
    (tmp_path / "phrases.tsv").rename(tmp_path / "out/phrases/phrases.tsv")
    _, said = make(tmp_path, without_lexicon(tmp_path, language="zh-Hans"))
    assert "is left alone, as zh-Hans needs no phrases; encode.coarse.phrases would name it" in said
    assert "coarse: already finished" in said


def test_documents_of_pairs_are_counted_on_both_sides(tmp_path: Path) -> None:
    rows = [{"text": "alpha beta", "text_pair": "gamma gamma", "label": "0"}] * 3
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    (tmp_path / "phrases.tsv").write_text("alpha beta\ngamma gamma\n", encoding="utf-8")
    input_ = {
        "format": "jsonl",
        "files": "a.jsonl",
        "text": "text",
        "text_pair": "text_pair",
        "label": "label",
    }
    make(tmp_path, settings(tmp_path, task="classify", input=input_, vocab={}))
    wanted = [b"alpha", b"beta", b"gamma", b"alpha beta", b"gamma gamma"]
    assert contents(tmp_path)["coarse_vocab.txt"].splitlines()[5:] == wanted
    assert report(tmp_path)["fine"]["occurrences"] == 12
