"""The embedded samples: layouts, labels, graph, variety, and vocabularies that rebuild to the byte."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from pipelines.training.sample_vocab import (
    SPECIAL_TOKENS,
    coarse_vocabulary,
    coarse_words,
    fine_vocabulary,
    main,
    sample_texts,
)

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "corpora" / "samples"
DATA_FILES = sorted(p for p in SAMPLES.rglob("*") if p.suffix in {".txt", ".tsv", ".jsonl", ".spo"})


def lines(name: str) -> list[str]:
    text = (SAMPLES / name).read_bytes().decode("utf-8")
    return text[:-1].split("\n")


def table(name: str) -> tuple[list[str], list[list[str]]]:
    header, *rows = (line.split("\t") for line in lines(name))
    return header, rows


def documents(lang: str) -> list[list[str]]:
    text = (SAMPLES / lang / "pretrain.txt").read_text(encoding="utf-8")
    return [block.split("\n") for block in text.rstrip("\n").split("\n\n")]


def corpus(lang: str) -> str:
    return "\n".join(text for language, text in sample_texts() if language == lang)


def entities(tokens: list[str], labels: list[str], joiner: str) -> list[tuple[str, str]]:
    """(text, type) of every B- I- ... run."""
    found: list[tuple[list[str], str]] = []
    for token, label in zip(tokens, labels, strict=True):
        if label.startswith("B-"):
            found.append(([token], label[2:]))
        elif label.startswith("I-"):
            found[-1][0].append(token)
    return [(joiner.join(words), kind) for words, kind in found]


def content(name: str) -> Any:
    return json.loads((SAMPLES / name).read_text(encoding="utf-8"))


def squad_questions(split: str) -> list[tuple[str, dict[str, Any]]]:
    """(context, question) of the English questions."""
    data = content(f"en/questions.{split}.json")["data"]
    return [(p["context"], qa) for article in data for p in article["paragraphs"] for qa in p["qas"]]


def cmrc_questions(split: str) -> list[tuple[str, dict[str, Any]]]:
    return [(t["context_text"], qa) for t in content(f"zh/questions.{split}.json") for qa in t["qas"]]


def race_passages(split: str) -> list[dict[str, Any]]:
    files = sorted((SAMPLES / "en" / "race" / split).glob("*.txt"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


@pytest.mark.parametrize("path", DATA_FILES, ids=lambda p: str(p.relative_to(SAMPLES)))
def test_files_are_utf8_with_lf_and_nothing_invisible_that_ends_lines(path: Path) -> None:
    raw = path.read_bytes()
    text = raw.decode("utf-8")
    assert raw.endswith(b"\n")
    assert not raw.endswith(b"\n\n")
    assert not re.search("[\r\ufeff\x0b\x0c\x1c-\x1e\x85\u2028\u2029\ufffd]", text)
    assert all(line == line.strip() for line in text.split("\n"))


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_pretrain_documents_are_many_and_none_is_a_lone_line(lang: str) -> None:
    docs = documents(lang)
    assert len(docs) >= 40
    assert all(5 <= len(doc) <= 12 for doc in docs), [doc[0] for doc in docs if not 5 <= len(doc) <= 12]
    assert all(line.strip() for doc in docs for line in doc)
    # Real prose hardly repeats itself: a template would.
    sentences = Counter(line for doc in docs for line in doc)
    assert sum(count - 1 for count in sentences.values()) <= 2
    openings = Counter(doc[0][:8] for doc in docs)
    assert max(openings.values()) <= 3


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_reviews_are_balanced_and_the_splits_make_up_the_whole(lang: str) -> None:
    splits = {}
    for name, size in (("reviews", 60), ("reviews.train", 48), ("reviews.dev", 12)):
        header, rows = table(f"{lang}/{name}.tsv")
        assert header == ["label", "text_a"]
        assert all(len(row) == 2 and row[1] for row in rows)
        assert Counter(label for label, _ in rows) == {"0": size // 2, "1": size // 2}
        splits[name] = rows
    assert splits["reviews"] == splits["reviews.train"] + splits["reviews.dev"]
    assert len({text for _, text in splits["reviews"]}) == 60


def test_english_pairs_have_unique_ids_and_three_labels() -> None:
    records = [json.loads(line) for line in lines("en/pairs.jsonl")]
    assert all(list(record) == ["id", "text", "text_pair", "label"] for record in records)
    assert all(isinstance(v, str) and v.strip() for record in records for v in record.values())
    assert len({record["id"] for record in records}) == len(records) >= 40
    counts = Counter(record["label"] for record in records)
    assert set(counts) == {"entailment", "neutral", "contradiction"}
    assert min(counts.values()) >= 10


def test_chinese_similarity_has_unique_ids_and_scores_over_the_whole_range() -> None:
    records = [json.loads(line) for line in lines("zh/similarity.jsonl")]
    assert all(list(record) == ["id", "text", "text_pair", "score"] for record in records)
    assert all(record["text"].strip() and record["text_pair"].strip() for record in records)
    assert len({record["id"] for record in records}) == len(records) >= 30
    scores = [record["score"] for record in records]
    assert all(isinstance(score, float) and 0.0 <= score <= 5.0 for score in scores)
    assert {int(score) for score in scores} == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("lang", "types", "train_rows", "dev_rows"),
    [("zh", {"Disease", "Symptom", "Drug", "Place"}, 50, 12), ("en", {"PER", "LOC", "ORG", "MISC"}, 40, 10)],
)
def test_ner_rows_have_a_label_per_token_and_sane_bio(
    lang: str, types: set[str], train_rows: int, dev_rows: int
) -> None:
    seen = {}
    texts = set()
    for split, least in (("train", train_rows), ("dev", dev_rows)):
        header, rows = table(f"{lang}/ner.{split}.tsv")
        assert header == ["text_a", "label"]
        assert len(rows) >= least
        seen[split] = set()
        for row in rows:
            assert len(row) == 2
            tokens, labels = (field.split(" ") for field in row)
            assert len(tokens) == len(labels)
            assert all(tokens)
            assert lang == "en" or all(len(token) == 1 for token in tokens)
            for before, label in zip(["O", *labels], labels, strict=False):
                assert label == "O" or label[:2] in {"B-", "I-"}
                if label.startswith("I-"):
                    assert before in {"B-" + label[2:], label}, row
            seen[split].update(labels)
            assert row[0] not in texts
            texts.add(row[0])
    assert {label[2:] for label in seen["train"]} - {""} == types
    assert seen["dev"] <= seen["train"]


def test_answers_stand_in_their_texts_and_some_questions_have_none() -> None:
    english = [*squad_questions("train"), *squad_questions("dev")]
    for context, qa in english:
        assert bool(qa["answers"]) != qa["is_impossible"]
        for answer in qa["answers"]:
            assert context[answer["answer_start"] :].startswith(answer["text"])
    assert len({qa["id"] for _, qa in english}) == len(english)
    assert 5 <= sum(qa["is_impossible"] for _, qa in english) <= len(english) // 3
    chinese = [*cmrc_questions("train"), *cmrc_questions("dev")]
    assert all(answer in text for text, qa in chinese for answer in qa["answers"])
    assert any(text.count(qa["answers"][0]) > 1 for text, qa in chinese)  # an answer that stands there twice
    assert len({qa["query_id"] for _, qa in chinese}) == len(chinese)


def test_right_choices_are_spread_and_exist() -> None:
    right = Counter()
    for passage in [*race_passages("train"), *race_passages("dev")]:
        sizes = {len(passage[key]) for key in ("answers", "options", "questions")}
        assert len(sizes) == 1
        assert all(len(set(options)) == 4 for options in passage["options"])
        right.update(passage["answers"])
        assert passage["article"].strip()
    assert set(right) == set("ABCD")
    assert any("_" in q for passage in race_passages("train") for q in passage["questions"])
    sizes = set()
    for split in ("train", "dev"):
        for texts, questions, _ in content(f"zh/choice.{split}.json"):
            assert texts
            for question in questions:
                assert question["choice"].count(question["answer"]) == 1
                sizes.add(len(question["choice"]))
    assert sizes == {3, 4}


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_summaries_are_shorter_than_their_reports(lang: str) -> None:
    records = [json.loads(line) for line in lines(f"{lang}/summaries.jsonl")]
    assert len({record["id"] for record in records}) == len(records) >= 10
    assert all(0 < 2 * len(record["summary"]) < len(record["article"]) for record in records)


def test_graph_lines_are_triples_without_repeats_or_self_loops() -> None:
    triples = [line.split("\t") for line in lines("graph.spo")]
    assert all(
        len(triple) == 3 and all(field and field == field.strip() for field in triple) for triple in triples
    )
    assert len(triples) >= 250
    assert len(set(map(tuple, triples))) == len(triples)
    assert all(subject != obj for subject, _, obj in triples)


def test_graph_subjects_occur_in_the_samples() -> None:
    texts = sample_texts()
    graph_strings = sum(3 for _ in lines("graph.spo"))
    text = "\n".join(text for _, text in texts[:-graph_strings])
    subjects = {line.split("\t")[0] for line in lines("graph.spo")}
    assert sorted(subject for subject in subjects if subject not in text) == []


def test_graph_has_the_shapes_that_make_grafting_interesting() -> None:
    triples = [line.split("\t") for line in lines("graph.spo")]
    objects: dict[str, list[str]] = {}
    for subject, _, obj in triples:
        objects.setdefault(subject, []).append(obj)
    assert "中国" in objects["北京"]  # a cycle: 北京 - 中国
    assert "北京" in objects["中国"]
    assert any(a != b and b.startswith(a) for a in objects for b in objects)
    assert {"北京", "北京大学", "北京大学第一医院"} <= set(objects)
    assert sum(len(found) >= 3 for found in objects.values()) >= 15
    assert sum(" " in subject for subject in objects) >= 15
    english = sum(subject.isascii() for subject in objects)
    assert 40 <= english <= len(objects) - 40


def test_most_ner_entities_are_known_to_the_graph() -> None:
    subjects = {line.split("\t")[0] for line in lines("graph.spo")}
    for lang, joiner, least in (("zh", "", 0.75), ("en", " ", 0.5)):
        found = []
        for split in ("train", "dev"):
            for tokens, labels in table(f"{lang}/ner.{split}.tsv")[1]:
                found += entities(tokens.split(" "), labels.split(" "), joiner)
        assert sum(name in subjects for name, _ in found) / len(found) >= least


VARIETIES = {
    "zh": {
        "curly quotes": "“[^”]+”",
        "corner quotes": "「[^」]+」",
        "book title marks": "《[^》]+》",
        "nested brackets": "（[^）]*〔[^〕]*〕[^）]*）",
        "square brackets in square brackets": r"\[\[1, 2\], \[3, 4\]\]",
        "full-width letters": "[Ａ-Ｚ]{3}",
        "full-width digits": "[０-９]{3}",
        "date": "[0-9]{4}年[0-9]{1,2}月[0-9]{1,2}日",
        "slash date": "2024/6/30",
        "units": r"mmol/L|mm²",
        "degrees": "[0-9]℃",
        "money": "[￥][0-9]",
        "per mille": "‰",
        "URL": r"https://\S+",
        "e-mail": r"\w+@\w+\.",
        "mixed script product": "iPhone 15",
        "mixed script disease": "COVID-19",
        "mixed script standard": r"GB/T 2828",
        "superscripts and subscripts": "CO₂",
        "ellipsis": "……",
        "dash": "——",
        "full-width semicolon": "；",
        "ideographic space": "\u3000",
        "traditional characters": "臺北.*捷運|維多利亞港",
        "Chinese numerals": "一九二八年",
        "emoji": "[\U0001f300-\U0001faff]",
        "emoji with variation selector": "[\u2190-\U0001faff]\ufe0f",
        "decimal and thousands": r"1,250\.00",
        "one-word sentence": r"(?m)^在。$",
        "long sentence": r"(?m)^[^。！？\n]{60,}[。！？]",
        "dialogue": "”他忍不住问",
    },
    "en": {
        "straight quotes": r'"[^"\n]+[,.!?]"',
        "quotes in quotes": r"\"[^\"\n]*'[a-z ]+'[^\"\n]*\"",
        "nested brackets": r"\[[^\]]*\([^)]*\)\]|\([^)]*\[[^\]]*\]\)",
        "nested round brackets": r"\([^)]*\([^)]*\)",
        "date": "[0-9]{1,2} (March|May|July|September) [0-9]{4}",
        "slash date": "12/07/2024",
        "time": r"2:15|6:45 a\.m\.",
        "units": r"mmol/L|mmHg|km/h",
        "money": r"£[0-9]+\.[0-9]{2}",
        "dollars": r"\$[0-9]+\.[0-9]{2}",
        "URL": r"https://\S+",
        "e-mail": r"\w+@\w+\.",
        "title": r"Dr\. [A-Z]",
        "country": r"U\.S\.",
        "e.g.": r"e\.g\.",
        "i.e.": r"i\.e\.",
        "contraction": "can't|won't|couldn't",
        "split contraction": " n't ",
        "mixed script product": "iPhone 15",
        "mixed script standard": "GB/T 2828",
        "Japanese in English": "[\u3040-\u30ff].*|東京",
        "accents": "Mbappé|café",
        "emoji": "[\U0001f300-\U0001faff]",
        "emoticon": r":\(",
        "ellipsis": r"\.\.\.",
        "semicolon": ";",
        "hyphenated": r"[a-z]+-[a-z]+",
        "signs": "±|²|€",
        "wordpieces in text": "##bel",
        "one-word sentence": r"(?m)^Hi\.$",
        "long sentence": r"(?m)^[^.!?\n]{180,}",
        "dialogue": '," sa(id|ys) ',
    },
}


@pytest.mark.parametrize(
    ("lang", "what", "pattern"),
    [(lang, what, p) for lang, found in VARIETIES.items() for what, p in found.items()],
)
def test_samples_hold_what_real_text_holds(lang: str, what: str, pattern: str) -> None:
    assert re.search(pattern, corpus(lang)), what


def tokenizer_of_samples() -> Tokenizer:
    vocab = {entry: number for number, entry in enumerate(lines("vocab.txt"))}
    tokenizer = Tokenizer(WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


@pytest.mark.parametrize(
    ("name", "least", "most"), [("vocab.txt", 4000, 6000), ("coarse_vocab.txt", 3000, 5000)]
)
def test_vocabularies_begin_with_the_special_tokens_and_repeat_nothing(
    name: str, least: int, most: int
) -> None:
    entries = lines(name)
    assert tuple(entries[:5]) == SPECIAL_TOKENS
    assert len(set(entries)) == len(entries)
    assert all(entries)
    assert least <= len(entries) <= most


def test_vocabulary_covers_the_samples_and_still_cuts_words_into_pieces() -> None:
    tokenizer = tokenizer_of_samples()
    for lang in ("zh", "en"):
        tokens = [
            token
            for language, text in sample_texts()
            if language == lang
            for token in tokenizer.encode(text).tokens
        ]
        assert len(tokens) > 8000
        assert tokens.count("[UNK]") / len(tokens) < 0.01
        assert any(token.startswith("##") for token in tokens)


def test_vocabulary_reads_any_printable_ascii() -> None:
    tokenizer = tokenizer_of_samples()
    assert "[UNK]" not in tokenizer.encode("".join(map(chr, range(0x20, 0x7F))) + " zqxj7k~0^`|").tokens


def test_coarse_vocabulary_covers_nearly_all_words_and_keeps_whole_words() -> None:
    counts = coarse_words(sample_texts())
    entries = set(lines("coarse_vocab.txt"))
    known = sum(count for word, count in counts.items() if word in entries)
    assert 0.9 < known / sum(counts.values()) < 1.0
    assert {"糖尿病", "photosynthesis", "n't"} <= entries
    assert all(entry == entry.lower() for entry in entries - set(SPECIAL_TOKENS))


def test_coarse_order_is_count_then_code_point() -> None:
    made = coarse_vocabulary([("en", "b a c a"), ("zh", "北京 北京"), ("en", "[PAD]")])
    assert made[5:] == ["a", "北京", "[", "]", "b", "c", "pad"]
    assert coarse_vocabulary([("en", "b a c a")], size=7) == [*SPECIAL_TOKENS, "a", "b"]
    assert coarse_vocabulary([("en", "b a c a")], min_count=2) == [*SPECIAL_TOKENS, "a"]


def test_fine_vocabulary_numbers_characters_first_and_ignores_the_order_of_texts() -> None:
    texts = ["lower lowest", "slow slower slowest", "北京 lower"]
    entries = fine_vocabulary(texts, size=300)
    assert entries == fine_vocabulary(list(reversed(texts)), size=300)
    characters = [entry for entry in entries[5:] if len(entry.removeprefix("##")) == 1]
    assert characters == entries[5 : 5 + len(characters)]
    plain = [entry for entry in characters if not entry.startswith("##")]
    assert plain == sorted(plain)
    assert "北" in plain
    assert "lower" in entries


def test_rebuild_gives_the_committed_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    for seed in ("0", "4711"):
        out = tmp_path / seed
        env = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-m", "pipelines.training.sample_vocab", "--out", str(out)]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        for name in ("vocab.txt", "coarse_vocab.txt"):
            assert (out / name).read_bytes() == (SAMPLES / name).read_bytes(), name
        assert sorted(p.name for p in out.iterdir()) == ["coarse_vocab.txt", "vocab.txt"]


def test_missing_text_column_is_named(tmp_path: Path) -> None:
    for lang in ("zh", "en"):
        (tmp_path / lang).mkdir()
        (tmp_path / lang / "pretrain.txt").write_text("x\n", encoding="utf-8")
        (tmp_path / lang / "reviews.tsv").write_text("label\ttext\n1\tx\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"reviews\.tsv: expected a column 'text_a', found \['label', 'text'\]"
    ):
        main(["--samples", str(tmp_path)])


def test_readme_counts_are_true() -> None:
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    counts = {
        "zh/pretrain.txt": len(documents("zh")),
        "en/pretrain.txt": len(documents("en")),
        "en/phrases.txt": len(lines("en/phrases.txt")),
        "graph.spo": len(lines("graph.spo")),
        "vocab.txt": len(lines("vocab.txt")),
        "coarse_vocab.txt": len(lines("coarse_vocab.txt")),
        "en/pairs.jsonl": len(lines("en/pairs.jsonl")),
        "zh/similarity.jsonl": len(lines("zh/similarity.jsonl")),
    }
    for split in ("train", "dev"):
        counts[f"en/questions.{split}.json"] = len(squad_questions(split))
        counts[f"zh/questions.{split}.json"] = len(cmrc_questions(split))
        counts[f"en/race/{split}"] = sum(len(passage["questions"]) for passage in race_passages(split))
        counts[f"zh/choice.{split}.json"] = sum(len(item[1]) for item in content(f"zh/choice.{split}.json"))
    for lang in ("zh", "en"):
        counts[f"{lang}/summaries.jsonl"] = len(lines(f"{lang}/summaries.jsonl"))
        for stem in ("reviews", "reviews.train", "reviews.dev", "ner.train", "ner.dev"):
            counts[f"{lang}/{stem}.tsv"] = len(lines(f"{lang}/{stem}.tsv")) - 1
    stated = dict(re.findall(r"^\| `([^`]+)` \| ([\d,]+) ", readme, flags=re.MULTILINE))
    assert {name: int(number.replace(",", "")) for name, number in stated.items()} == counts
