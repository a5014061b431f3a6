"""Tags: entities found whole, of the right type (strict), and single labels.

Sequences are read as seqeval's strict mode reads them: an entity begins with a tag that may begin one, goes on with
tags that may follow in its scheme, of its own type, and in BIOES ends as it must; what else a model predicts, an I
behind an O say, is no entity. One label stands for each source token, that of its first piece; branches, special
tokens and further pieces have no say.

K-BERT's released evaluation (`run_kbert_ner.py`) counts otherwise, so its figures are not these: an entity is right if
its place is, whatever its type, and goes on until an O, a padding or a B, so over an I of another type; predictions of
B on injected tokens count as predicted entities, though they can never be right; places are compared in the flattened
tree, so an entity that ends in an anchor must have had its branch, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.ragged import Ints
from corpora.schema import IGNORED_LABEL
from corpora.trunk import Ragged
from models.bert_batch import Batch, BatchError, few
from models.evaluate.classes import one_class
from models.evaluate.measure import (
    Measure,
    Result,
    Scores,
    check_order,
    lists,
    named,
    of_trunk,
    texts,
)
from models.evaluate.options import Options
from models.output import Output
from models.stream.rows import Array, Rows

SCHEMES = {"BIO": "IOB2", "BIOES": "IOBES", "BILOU": "BILOU", "IOB1": "IOB1"}
"""Schemes by name, and what seqeval calls them. BIOES is also written BMES, its M being an I; in IOB1 a B begins only
an entity that follows one of its own type without a gap."""
_LETTERS = {"BIO": set("BIO"), "BIOES": set("BIOES"), "BILOU": set("BILOU"), "IOB1": set("BIO")}
_NEEDED = {"BIO": ("B",), "BIOES": ("S", "BE"), "BILOU": ("U", "BL"), "IOB1": ("I", "B")}
"""Letters that the least entities of a scheme are made of: labels that have those of none make no entity."""


def scheme_of(labels: Iterable[str]) -> str | None:
    """The scheme that these labels can be of, of `SCHEMES`; None where they are no scheme of entities.

    Labels are O, or one of a scheme's letters alone or with `-` and a type. B and I are taken for BIO, never for IOB1.
    """
    names = [_plain(label) for label in labels]
    if not all(name == "O" or name[1:2] in ("", "-") for name in names) or set(names) <= {"O"}:
        return None
    letters = {name[:1] for name in names}
    if letters <= {"I", "O"}:
        return "IOB1"
    return next((scheme for scheme in ("BIO", "BIOES", "BILOU") if letters <= _LETTERS[scheme]), None)


def check_scheme(labels: Sequence[str], scheme: str | None) -> None:
    """Raise BatchError where a scheme, of `SCHEMES`, is named and these labels are none of it, or make no entity."""
    if scheme is None:
        return
    plain = sorted(map(_plain, labels))
    strange = next(_strangers(scheme, plain), None)
    if strange is not None:
        why = f"{strange!r} is none of it"
    elif not any({name[:1] for name in plain} >= set(letters) for letters in _NEEDED[scheme]):
        why = f"an entity of it needs {', or '.join(map(' and '.join, _NEEDED[scheme]))}"
    else:
        return
    fits = scheme_of(labels)
    raise BatchError(
        f"scores.scheme is {scheme}, the labels are {few(labels)}: {why}; "
        + (f"they are of {fits}: write that, or drop scores.scheme" if fits else "drop scores.scheme")
    )


def tag_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str = "BIO"
) -> tuple[Scores, list[dict[str, Any]]]:
    """`entity_precision`, `entity_recall`, `entity_f1` over all entities; and the same of each type, as a table.

    Nothing is scored where neither side has an entity.

    Args:
        gold, predicted: labels of each row's source tokens.
        scheme: of `SCHEMES`.

    Raises:
        ValueError: rows differ in length, the scheme is unknown, or a label is none of it.
    """
    from seqeval.metrics.v1 import precision_recall_fscore_support
    from seqeval.scheme import Entities

    wanted, found = ([[_plain(label) for label in row] for row in side] for side in (gold, predicted))
    sides = [Entities(side, _scheme(scheme, side)) for side in (wanted, found)]
    types = sorted(sides[0].unique_tags | sides[1].unique_tags)
    if not types:
        return {}, []
    settings: dict[str, Any] = {
        "entities_true": sides[0],
        "entities_pred": sides[1],
        "zero_division": 0,
    }
    micro, each = (
        precision_recall_fscore_support(wanted, found, average=average, **settings)
        for average in ("micro", None)
    )
    names = ("precision", "recall", "f1")
    table = [
        {"type": kind, **dict(zip(names, map(float, figures), strict=True)), "gold": int(count)}
        for kind, *figures, count in zip(types, *each, strict=True)
    ]
    return {f"entity_{name}": float(value) for name, value in zip(names, micro[:3], strict=True)}, table


def entities(labels: Sequence[str], scheme: str = "BIO") -> list[tuple[str, int, int]]:
    """(type, first, one past the last) of each entity in one row's labels, counted in source tokens."""
    from seqeval.scheme import Tokens

    plain = [_plain(label) for label in labels]
    return [(e.tag, e.start, e.end) for e in Tokens(plain, _scheme(scheme, [plain])).entities]


def _plain(label: str) -> str:
    """A label as seqeval has it: the M of BMES is an I."""
    return f"I{label[1:]}" if label[:1] == "M" and label[1:2] in ("", "-") else label


def _scheme(name: str, rows: Iterable[Iterable[str]]) -> Any:
    """seqeval's class; raises ValueError where it is unknown or a label is none of it."""
    import seqeval.scheme

    if name not in SCHEMES:
        raise ValueError(f"unknown scheme {name!r}; known: {', '.join(SCHEMES)}")
    for label in _strangers(name, sorted(set().union(*rows))):
        raise ValueError(f"label {label!r} is none of scheme {name}: O, or one of its letters, - and a type")
    return getattr(seqeval.scheme, SCHEMES[name])


def _strangers(scheme: str, labels: Iterable[str]) -> Iterator[str]:
    """Labels that are none of a scheme."""
    for label in labels:
        if label[:1] not in _LETTERS[scheme] or (label != "O" and label[1:2] not in ("", "-")):
            yield label


# --- of a model's output ----------------------------------------------------------------------


def first_pieces(rows: Rows) -> tuple[Ints, Ints]:
    """Where each source token's first piece lies among the rows' tokens, int64[U], and offsets of rows into these.

    Raises ValueError for rows that have a source token without a piece, which `treegraft verify` tells more of.
    """
    (starts, of_rows), (unit_starts, units) = rows.lists["char_starts"], rows.lists["tag_starts"]

    def key(offsets: Ints, values: Array) -> Ints:
        return (np.repeat(np.arange(len(rows)), np.diff(offsets)) << 32) + values

    real = np.flatnonzero(rows.lists["char_stops"][0] > starts)  # special tokens stand for nothing
    unit = np.searchsorted(key(units, unit_starts), key(of_rows, starts)[real], "right") - 1
    numbers = np.arange(len(unit_starts))
    first = np.searchsorted(unit, numbers)
    if not np.array_equal(np.append(unit, -1)[first], numbers):
        raise ValueError("a row has a source token without a token: `treegraft verify` tells what is wrong")
    return real[first], units


def _read(output: Output, batch: Batch, rows: Rows, options: Options) -> pa.Table:
    check_order(batch, rows)
    labels = of_trunk(output.logits["tag"].detach().argmax(-1), batch, rows, "char_starts").astype(np.int16)
    first, units = first_pieces(rows)
    return pa.table(
        texts(rows)
        | {
            "starts": lists(rows.lists["tag_starts"][0], units),
            "stops": lists(rows.lists["tag_stops"][0], units),
            "labels": lists(rows.lists["token_labels"][0][first], units),
            "predicted": lists(labels[first], units),
        }
    )


def _score(table: pa.Table, metadata: Mapping[str, Any], options: Options) -> Result:
    names: list[str] = metadata["labels"]
    scheme = options.scheme or scheme_of(names)
    sides = [Ragged.of(table[name]) for name in ("labels", "predicted")]
    (gold, offsets), (predicted, _) = sides
    known = gold != IGNORED_LABEL
    scores = {"accuracy": float((gold == predicted)[known].mean())} if known.any() else {}
    tables: dict[str, list[dict[str, Any]]] = {}
    shown = table
    for name, side in zip(("labels", "predicted"), sides, strict=True):
        column = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), named(names, side.values))
        shown = shown.set_column(shown.column_names.index(name), name, column)
    if scheme is not None:
        labelled = np.array([row is not None and None not in row for row in shown["labels"].to_pylist()])
        rows = shown.filter(pa.array(labelled))
        more, types = tag_scores(rows["labels"].to_pylist(), rows["predicted"].to_pylist(), scheme)
        scores |= more
        tables |= {"types": types} if types else {}
        shown = shown.append_column("entities", _entities(shown, scheme))
    rules = {"scheme": scheme} if scheme else {}
    return Result(scores, shown, tables, rules=rules, remarks=one_class(gold, predicted, names, "tokens"))


def _entities(table: pa.Table, scheme: str) -> pa.Array:
    """Predicted entities of each row, with their characters in `text`."""
    made = []
    for row in table.select(["text", "starts", "stops", "predicted"]).to_pylist():
        spans = (
            (kind, row["starts"][first], row["stops"][last - 1])
            for kind, first, last in entities(row["predicted"], scheme)
        )
        made.append([{"type": t, "start": a, "stop": b, "text": row["text"][a:b]} for t, a, b in spans])
    fields = [("type", pa.string()), ("start", pa.int32()), ("stop", pa.int32()), ("text", pa.string())]
    return pa.array(made, pa.list_(pa.struct(fields)))


TAG = Measure(
    ("id", "text", "char_starts", "char_stops", "token_labels", "tag_starts", "tag_stops"),
    _read,
    _score,
    lambda metadata, options: check_scheme(metadata["labels"], options.scheme),
)
