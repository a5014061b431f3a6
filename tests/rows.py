"""Valid shard rows and annotated documents, built by naive loops straight from the contracts.

Nothing here is shared with the product: a row is made token by token and word by word, so that
vectorised code can be held against it. Everything is a function of the `random.Random` given.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.manifest import Manifest, ShardRecord, SplitRecord, write_manifest
from corpora.schema import annotated_schema, row_schema
from corpora.shards import ShardWriter

Row = dict[str, Any]

PAD, UNK, CLS, SEP, MASK = 0, 1, 2, 3, 4
VOCAB, COARSE_VOCAB, TRIPLES = 100, 60, 1000
DEPRELS = ["dep", "nsubj", "obj", "root"]
LABELS = ["bad", "good", "so-so"]
LETTERS = "abcdefgh我在北京苹果水é\U0001f469\u200d\u200b"
GROUPS = ("base", "syntax", "coarse", "tree")


def metadata(task: str, groups: Iterable[str], /, **changes: Any) -> dict[str, Any]:
    """Schema metadata of shard rows, without what `groups` do not need."""
    special = {"pad": PAD, "unk": UNK, "cls": CLS, "sep": SEP, "mask": MASK}
    meta: dict[str, Any] = {
        "stage": "encode",
        "task": task,
        "fingerprint": "f" * 16,
        "labels": LABELS if task in ("classify", "tag") else [],
        "special_ids": special,
        "vocab_size": VOCAB,
        "max_length": 64,
    }
    if task == "span":
        meta["misaligned"] = "drop"
    if "syntax" in groups:
        meta["deprels"] = DEPRELS
    if "coarse" in groups:
        meta |= {"coarse_special_ids": special, "coarse_vocab_size": COARSE_VOCAB}
    if "tree" in groups:
        graph = {"sha256": "0" * 64, "triples": TRIPLES, "subjects": 10}
        meta |= {"tree_max_length": 128, "max_positions": 96, "graph": graph}
    return meta | changes


# --- shard rows -------------------------------------------------------------------------------


class _Segment:
    """Words of one segment: text, and per word its pieces' spans and ids, and its sentence."""

    def __init__(self, rng: random.Random, words: int) -> None:
        self.text, self.words, self.sentences = "", [], []
        sentence = 0
        for index in range(words):
            self.text += rng.choice(["", " ", "  "])
            start = len(self.text)
            self.text += "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 4)))
            stop = len(self.text)
            if index and rng.random() < 0.3:
                sentence += 1
            cuts = sorted({start, stop, *(rng.randint(start, stop) for _ in range(rng.randint(0, 2)))})
            ids = [rng.choice([UNK, rng.randint(5, VOCAB - 1)]) for _ in cuts[1:]]
            self.words.append([(a, b, i) for (a, b), i in zip(itertools.pairwise(cuts), ids, strict=True)])
            self.sentences.append(sentence)
        self.text += rng.choice(["", " ", "\u3000"])

    def part(self, start: int, stop: int) -> _Segment:
        """The same text with pieces [start, stop) alone, counted over all words."""
        made, index = copy.copy(self), 0
        made.words, made.sentences = [], []
        for pieces, sentence in zip(self.words, self.sentences, strict=True):
            kept = [piece for number, piece in enumerate(pieces, index) if start <= number < stop]
            index += len(pieces)
            if kept:
                made.words.append(kept)
                made.sentences.append(sentence)
        return made

    def moved(self, shift: int) -> _Segment:
        """The same words, their spans `shift` characters further on."""
        made = copy.copy(self)
        made.words = [[(a + shift, b + shift, i) for a, b, i in pieces] for pieces in self.words]
        return made

    @property
    def pieces(self) -> list[tuple[int, int, int]]:
        return [piece for pieces in self.words for piece in pieces]


def lay(rng: random.Random, segments: Sequence[_Segment], *, cut: bool = False) -> Row:
    """Columns of all groups for [CLS] A [SEP] or [CLS] A [SEP] B [SEP], without the last [SEP] if `cut`."""
    row: Row = {k: [] for k in ("input_ids", "token_type_ids", "char_starts", "char_stops", "word_index")}
    row |= {k: [] for k in ("word_heads", "word_deprels", "sentence_index")}
    row |= {k: [] for k in ("coarse_ids", "coarse_token_type_ids", "coarse_index")}

    def token(kind: int, identity: int, start: int, stop: int, word: int) -> None:
        row["input_ids"].append(identity)
        row["token_type_ids"].append(kind)
        row["char_starts"].append(start)
        row["char_stops"].append(stop)
        row["word_index"].append(word)
        row["coarse_index"].append(len(row["coarse_ids"]) - 1)

    def coarse(kind: int, identity: int) -> None:
        row["coarse_ids"].append(identity)
        row["coarse_token_type_ids"].append(kind)

    coarse(0, CLS)
    token(0, CLS, 0, 0, -1)
    sentence = 0
    for kind, segment in enumerate(segments):
        for index, pieces in enumerate(segment.words):
            word = len(row["sentence_index"])
            row["sentence_index"].append(sentence + segment.sentences[index])
            if index == 0 or rng.random() < 0.7:
                coarse(kind, rng.choice([UNK, rng.randint(5, COARSE_VOCAB - 1)]))
            for start, stop, identity in pieces:
                token(kind, identity, start, stop, word)
        sentence = (row["sentence_index"] or [-1])[-1] + 1
        if not (cut and segment is segments[-1]):
            coarse(kind, SEP)
            token(kind, SEP, 0, 0, -1)

    row["word_heads"] = make_heads(rng, row["sentence_index"], extra_roots=0.1)
    row["word_deprels"] = [rng.randrange(len(DEPRELS)) for _ in row["word_heads"]]
    row["word_dfs_in"], row["word_dfs_out"] = depth_first(row["word_heads"])
    return row | make_tree(rng, row["input_ids"], row["token_type_ids"])


def make_row(
    rng: random.Random,
    task: str,
    groups: Iterable[str],
    identity: str,
    *,
    pair: bool | None = None,
    most_words: int = 6,
) -> Row:
    """One valid row; every column of every group is made, and those not asked for are left out.

    Of task `span` it is the first window of a question.
    """
    if task == "span":
        return make_windows(rng, groups, identity.rpartition("#")[0], most_words=most_words)[0]
    if task == "choice":
        return make_choices(rng, groups, identity, most_words=most_words)
    if task == "seq2seq":
        pair = True
    pair = (rng.random() < 0.5 and task != "tag") if pair is None else pair
    least = 0 if rng.random() < 0.1 and task != "seq2seq" else 1
    segments = [_Segment(rng, rng.randint(least, most_words)) for _ in range(2 if pair else 1)]
    row: Row = {"id": identity, "text": segments[0].text, "text_pair": segments[1].text if pair else None}
    cut = task == "seq2seq" and rng.random() < 0.3
    row |= lay(rng, segments, cut=cut)
    if task == "pretrain":
        row["label"] = rng.randint(0, 1) if pair else None
    elif task == "classify":
        scored = rng.random() < 0.5
        row["label"] = None if scored else rng.randrange(len(LABELS))
        row["label_score"] = rng.randrange(65) / 64 if scored else None  # exact in float32
    elif task == "seq2seq":
        row["target_cut"] = cut
    else:
        row |= make_tags(rng, row)
    return {name: row[name] for name in row_schema(task, groups).names}


def make_windows(
    rng: random.Random, groups: Iterable[str], question: str, *, most_words: int = 6
) -> list[Row]:
    """All windows of one question: an answer, several, none known, or none at all."""
    asked, context = _Segment(rng, rng.randint(1, 3)), _Segment(rng, rng.randint(1, 2 * most_words))
    pieces = context.pieces
    size = rng.randint(1, len(pieces))
    stride = rng.randint(1, size)
    spans = [(0, min(size, len(pieces)))]
    while spans[-1][1] < len(pieces):
        start = spans[-1][0] + stride
        spans.append((start, min(start + size, len(pieces))))
    impossible = rng.random() < 0.2
    first = rng.randrange(len(pieces))
    last = rng.randint(first, min(first + 3, len(pieces) - 1))
    answers = [] if impossible or rng.random() < 0.2 else [context.text[pieces[first][0] : pieces[last][1]]]
    answer = (first, last) if answers else None
    if answers and rng.random() < 0.5:
        answers.insert(rng.randint(0, 1), "another")
    rows = []
    for number, (start, stop) in enumerate(spans):
        row: Row = {"id": f"{question}#{number}", "text": asked.text, "text_pair": context.text}
        row |= lay(rng, [asked, context.part(start, stop)])
        before = len(asked.pieces) + 2
        inside = answer is not None and start <= answer[0] and answer[1] < stop
        row["answer_start"] = before + first - start if inside else 0
        row["answer_stop"] = before + last - start + 1 if inside else 1
        row |= {"is_impossible": impossible, "answers": answers}
        best = [most_context(spans, piece) == number for piece in range(start, stop)]
        row["is_max_context"] = [False] * before + best + [False]
        rows.append({name: row[name] for name in row_schema("span", groups).names})
    return rows


def most_context(spans: Sequence[tuple[int, int]], piece: int) -> int:
    """The window in which a piece has most context: BERT's rule, the first of equal ones."""
    best, score = -1, float("-inf")
    for number, (start, stop) in enumerate(spans):
        if start <= piece < stop:
            here = min(piece - start, stop - 1 - piece) + 0.01 * (stop - start)
            if here > score:
                best, score = number, here
    return best


def make_choices(rng: random.Random, groups: Iterable[str], identity: str, *, most_words: int = 6) -> Row:
    """A question with two to four choices, each a sequence of its own."""
    passage = _Segment(rng, rng.randint(1, most_words))
    lines = [_Segment(rng, rng.randint(1, most_words)) for _ in range(rng.randint(2, 4))]
    row: Row = {"id": identity, "text": passage.text, "text_pair": "\n".join(line.text for line in lines)}
    row |= {"label": rng.choice([None, *range(len(lines))]), "choice_starts": [], "choice_stops": []}
    lengths: Row = {f"choice_{k}": [] for k in ("lengths", "words", "coarse", "tree", "branches")}
    at = 0
    for line in lines:
        row["choice_starts"].append(at)
        row["choice_stops"].append(at + len(line.text))
        laid = lay(rng, [passage, line.moved(at)])
        at += len(line.text) + 1
        for name, values in laid.items():
            row.setdefault(name, []).extend(values)
        counted = ("input_ids", "word_heads", "coarse_ids", "tree_ids", "branch_triples")
        for name, of in zip(lengths, counted, strict=True):
            lengths[name].append(len(laid[of]))
    return {name: (row | lengths)[name] for name in row_schema("choice", groups).names}


def make_tags(rng: random.Random, row: Row) -> Row:
    """Source tokens of one to three tokens; what lies between two tokens may belong to either, or to none."""
    labels = [-100] * len(row["input_ids"])
    spans: list[list[int]] = []
    left = 0
    for index in range(1, len(labels) - 1):
        start, stop = row["char_starts"][index], row["char_stops"][index]
        if left and start < row["char_stops"][index - 1] + 1:
            spans[-1][1], left = stop, left - 1
            continue
        least = spans[-1][1] if spans else 0
        if spans:
            spans[-1][1] = least = rng.randint(least, start)
        spans.append([rng.randint(least, start), stop])
        labels[index] = rng.choice([-100, *range(len(LABELS))])
        left = rng.choice([0, 0, 1, 2])
    if spans:
        spans[-1][1] = rng.randint(spans[-1][1], len(row["text"]))
    starts, stops = ([span[side] for span in spans] for side in (0, 1))
    return {"token_labels": labels, "tag_starts": starts, "tag_stops": stops}


def make_heads(rng: random.Random, sentences: Sequence[int], extra_roots: float) -> list[int]:
    """A random forest within each sentence: every word but the first drawn hangs on one drawn before."""
    heads = [0] * len(sentences)
    for sentence in sorted(set(sentences)):
        drawn: list[int] = []
        words = [w for w, s in enumerate(sentences) if s == sentence]
        rng.shuffle(words)
        for word in words:
            heads[word] = word if not drawn or rng.random() < extra_roots else rng.choice(drawn)
            drawn.append(word)
    return heads


def depth_first(heads: Sequence[int]) -> tuple[list[int], list[int]]:
    """Entry and exit numbers by recursion: roots in word order, children in word order."""
    enter, leave = [0] * len(heads), [0] * len(heads)
    clock = 0

    def visit(word: int) -> None:
        nonlocal clock
        enter[word] = clock
        clock += 1
        for child, head in enumerate(heads):
            if head == word and child != word:
                visit(child)
        leave[word] = clock

    for word, head in enumerate(heads):
        if word == head:
            visit(word)
    return enter, leave


def triple_tokens(triple: int) -> list[int]:
    """What a triple of the graph says: one to three tokens."""
    rng = random.Random(triple)
    return [rng.randint(5, VOCAB - 1) for _ in range(rng.randint(1, 3))]


def make_tree(rng: random.Random, ids: Sequence[int], types: Sequence[int]) -> Row:
    """Random anchors of one to three tokens with one or two branches.

    Now and then a branch has one or two branches of its own right behind it.
    """
    tree: Row = {
        f"tree_{k}": []
        for k in ("ids", "token_type_ids", "soft_positions", "branch", "mention", "trunk_index")
    }
    triples: list[int] = []
    parents: list[int] = []
    mentions = 0
    token = 0

    def put(identity: int, kind: int, soft: int, branch: int, mention: int, index: int) -> None:
        for name, value in zip(tree, (identity, kind, soft, branch, mention, index), strict=True):
            tree[name].append(value)

    while token < len(ids):
        length = rng.randint(1, 3)
        span = list(range(token, min(token + length, len(ids))))
        if rng.random() < 0.6 or any(ids[i] in (CLS, SEP) for i in span):
            put(ids[token], types[token], token, 0, -1, token)
            token += 1
            continue
        for i in span:
            put(ids[i], types[i], i, 0, mentions, i)

        def graft(parent: int, soft: int, kind: int = types[token], mention: int = mentions) -> int:
            """A branch from soft position `soft`; returns the position behind it."""
            triples.append(rng.randrange(TRIPLES))
            parents.append(parent)
            tokens = triple_tokens(triples[-1])
            for position, identity in enumerate(tokens, start=soft):
                put(identity, kind, position, len(triples), mention, -1)
            return soft + len(tokens)

        for _ in range(rng.randint(1, 2)):
            behind = graft(0, span[-1] + 1)
            parent = len(triples)
            for _ in range(rng.choice([0, 0, 1, 2])):
                graft(parent, behind)
        mentions += 1
        token = span[-1] + 1
    return {**tree, "branch_triples": triples, "branch_parents": parents}


# --- annotated documents ----------------------------------------------------------------------


def document_metadata(task: str, **changes: Any) -> dict[str, Any]:
    return {"stage": "annotate", "task": task, "fingerprint": "f" * 16} | changes


def make_document(rng: random.Random, identity: str, *, parsed: bool, pair: bool) -> Row:
    """One valid annotated document, with labels and tags now and then."""
    text, notes = _annotated(rng, parsed)
    row: Row = {
        "doc_id": identity,
        "text": text,
        "text_pair": None,
        "language": "zh",
        "source": f"f@{identity}",
    }
    page = len(text) % 2 == 0
    row |= {"title": f"页 {identity}" if page else None, "categories": ["甲", "b c"] if page else None}
    row |= {"label": rng.choice([None, "good"]), "label_score": rng.choice([None, 0.5])}
    if rng.random() < 0.5:
        row |= {"tag_starts": notes["word_starts"], "tag_stops": notes["word_stops"]}
        row["tag_labels"] = [rng.choice("BIO") for _ in notes["word_starts"]]
    else:
        row |= {"tag_starts": None, "tag_stops": None, "tag_labels": None}
    for name in ("answers", "answer_starts", "is_impossible", "choice_starts", "choice_stops"):
        row[name] = None
    row |= notes
    if pair:
        second = rng.random() < 0.7
        text, notes = _annotated(rng, parsed)
        row["text_pair"] = text if second else None
        row |= {f"{name}_pair": value if second else None for name, value in notes.items()}
        if second:
            row |= rng.choice([{}, _answers(rng, text), _lines(text)])
    return row


def _answers(rng: random.Random, text: str) -> Row:
    """Gold answers of a question on `text`, some of unknown place; or none."""
    starts = [rng.randrange(len(text)) for _ in range(rng.choice([0, 1, 3]))]
    answers = [text[start : start + rng.randint(1, 5)] for start in starts]
    known = [rng.choice([start, start, -1]) for start in starts]
    return {"answers": answers, "answer_starts": known, "is_impossible": not answers}


def _lines(text: str) -> Row:
    """The lines of `text` as choices."""
    starts = [0, *(i + 1 for i, char in enumerate(text) if char == "\n")]
    return {"choice_starts": starts, "choice_stops": [*(s - 1 for s in starts[1:]), len(text)]}


def _annotated(rng: random.Random, parsed: bool) -> tuple[str, Row]:
    text = ""
    notes: Row = {k: [] for k in ("sentence_starts", "sentence_stops", "word_starts", "word_stops")}
    heads: list[int] = []
    for _ in range(rng.randint(1, 3)):
        text += rng.choice(["", "\n", " \u3000"])
        notes["sentence_starts"].append(len(text))
        words = rng.randint(1, 5)
        for index in range(words):
            text += rng.choice(["", " "]) if index else ""
            notes["word_starts"].append(len(text))
            text += "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 3)))
            notes["word_stops"].append(len(text))
        heads += [len(heads) + h for h in make_heads(rng, [0] * words, extra_roots=0)]
        notes["sentence_stops"].append(len(text))
    if parsed:
        notes["word_heads"] = heads
        notes["word_deprels"] = [rng.choice(DEPRELS) for _ in heads]
        notes["word_pos"] = [rng.choice(["NOUN", "VERB"]) for _ in heads]
    return text + rng.choice(["", "\n"]), notes


# --- tables and folders -----------------------------------------------------------------------


def make_rows(seed: int, task: str, groups: Iterable[str], count: int) -> list[Row]:
    """`count` rows; of task `span` all windows of as many questions as that takes, so it may be a few more."""
    rng = random.Random(seed)
    if task != "span":
        return [make_row(rng, task, groups, f"doc{seed}@{i}#0") for i in range(count)]
    rows: list[Row] = []
    while len(rows) < count:
        rows += make_windows(rng, groups, f"doc{seed}@{len(rows)}")
    return rows


def make_documents(seed: int, count: int, *, parsed: bool = True, pair: bool = False) -> list[Row]:
    rng = random.Random(seed)
    return [make_document(rng, f"doc{seed}@{i}", parsed=parsed, pair=pair) for i in range(count)]


def to_batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def rows_schema(task: str, groups: Iterable[str], /, **changes: Any) -> pa.Schema:
    return row_schema(task, groups, metadata(task, groups, **changes))


def documents_schema(task: str = "classify", *, parsed: bool = True, pair: bool = False) -> pa.Schema:
    return annotated_schema(parsed=parsed, pair=pair, metadata=document_metadata(task))


def write_folder(
    folder: Path,
    schema: pa.Schema,
    splits: Mapping[str, Sequence[Sequence[Row]]],
    *,
    stage: str = "encode",
    task: str,
    max_batch_rows: int = 4096,
) -> Path:
    """A finished folder: each split's lists of rows become its shards."""
    folder.mkdir(parents=True, exist_ok=True)
    records = {}
    for split, shards in splits.items():
        written = []
        for index, rows in enumerate(shards):
            path = folder / f"{split}-{index:05d}-of-{len(shards):05d}.arrow"
            with ShardWriter(str(path), schema, max_batch_rows=max_batch_rows) as shard:
                shard.write(to_batch(rows, schema))
            written.append(ShardRecord.of(shard.result, {"records": len(rows)}, {}))
        records[split] = SplitRecord.of(written)
    write_manifest(str(folder), Manifest(stage=stage, task=task, config_fingerprint="f" * 16, splits=records))
    return folder
