"""What `treegraft kg lookup` prints: mentions, subjects that are none, the fate of triples, the tree."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from kg.graph import KnowledgeGraph
from kg.tree.explain import Decision
from pipelines.lookup import MAX_OTHERS, LookUp, Mention
from pipelines.view.branchview import triple_of
from pipelines.view.legible import legible, plural
from pipelines.view.reasons import MENTIONS, in_words
from pipelines.view.tables import Column, facts_table, fitted, title
from pipelines.view.treetext import mention_style, tree_text

"""Subjects in the text that are no mention, as many as are listed."""
_OF_PLACE = ("overlapped", "inside_word")


def lookup_parts(
    found: LookUp, graph: KnowledgeGraph, facts: Sequence[tuple[str, str]], width: int
) -> list[RenderableType]:
    """All parts, to print with rich at `width` cells; `facts` stand in front."""
    parts: list[RenderableType] = [facts_table(facts)]
    for segment, text in zip("AB", found.texts, strict=False):
        name = f"text {segment}" if len(found.texts) > 1 else "text"
        parts += [title(name, plural(len(text), "character")), Text(legible(text))]
    if found.truncated:
        parts.append(Text("cut to encode.max_length: see what it does to mentions below", "yellow"))
    parts += _mention_parts(found, graph, width)
    parts += _other_parts(found, graph, width)
    for number, mention in enumerate(_anchored(found)):
        parts += _candidate_parts(mention, number, found, graph, width)
    if found.branches:
        parts += [title("sentence tree", "soft positions below the tokens")]
        parts.append(tree_text(found.tree, found.branches, width))
    return parts


def _anchored(found: LookUp) -> list[Mention]:
    """Mentions that branches may hang from."""
    return [m for m in found.mentions if not _no_anchor(m)]


def _no_anchor(mention: Mention) -> str:
    """Why a mention has no anchor, if it has none."""
    outcomes = {d.outcome for d in mention.decisions}
    return next((o for o in sorted(outcomes) if f"dropped_{o.removeprefix('dropped_')}" in MENTIONS), "")


def _mention_parts(found: LookUp, graph: KnowledgeGraph, width: int) -> list[RenderableType]:
    mentions = _anchored(found)
    if not mentions:
        return [
            title("mentions", "none"),
            Text("No subject of the graph is mentioned in this text.", "yellow"),
        ]
    columns = [Column("#"), Column("mention", number=False, least=8), Column("chars", number=False)]
    columns += [Column("text", number=False)] if len(found.texts) > 1 else []
    columns += [Column("subject", number=False, least=8), Column("triples"), Column("kept")]
    rows = []
    for number, m in enumerate(mentions):
        kept = sum(d.count for d in m.decisions if d.outcome == "kept")
        cells = [str(number), legible(found.texts[m.segment][m.start : m.stop]), f"{m.start}–{m.stop}"]
        cells += ["AB"[m.segment]] if len(found.texts) > 1 else []
        cells += [_spellings(graph, m.subject), f"{len(graph.triples_of(m.subject)):,}", str(kept)]
        rows.append([Text(cells[0], mention_style(number)), *map(Text, cells[1:])])
    return [title("mentions", f"{len(rows):,}"), fitted(columns, rows, width)[0]]


def _spellings(graph: KnowledgeGraph, subject: int) -> str:
    """A subject as the files write it, in all its spellings."""
    names = graph.spellings(subject)
    more = f" (+{len(names) - 3})" if len(names) > 3 else ""
    return legible(", ".join(names[:3])) + more


def _other_parts(found: LookUp, graph: KnowledgeGraph, width: int) -> list[RenderableType]:
    places: list[tuple[int, int, int, str]] = [
        (segment, o.start, o.stop, o.why) for segment, o in found.others
    ]
    places += [(m.segment, m.start, m.stop, why) for m in found.mentions if (why := _no_anchor(m))]
    if not places:
        return []
    columns = [Column("chars", number=False), Column("in the text", number=False, least=8)]
    columns += [Column("why not", number=False, least=12)]
    rows = [
        [
            Text(f"{start}–{stop}" + (f" {'AB'[segment]}" if len(found.texts) > 1 else ""), "dim"),
            Text(legible(found.texts[segment][start:stop])),
            Text(in_words("not_a_word" if found.by_words and why in _OF_PLACE else why)),
        ]
        for segment, start, stop, why in sorted(places)[:MAX_OTHERS]
    ]
    count = found.others_count + len(places) - len(found.others)
    note = f"{count:,}" + (f", first {MAX_OTHERS}" if count > MAX_OTHERS else "")
    return [title("subjects that are no mention here", note), fitted(columns, rows, width)[0]]


def _candidate_parts(
    mention: Mention, number: int, found: LookUp, graph: KnowledgeGraph, width: int
) -> list[RenderableType]:
    columns = [
        Column("rank", number=False),
        Column("predicate", number=False, least=9),
        Column("object", number=False, least=8),
        Column("outcome", number=False, least=12),
        Column("file:line", number=False, least=9),
    ]
    rows, rank, inner = [], 0, 0
    for decision in mention.decisions:
        if decision.parent < 0:
            rank, inner = rank + decision.count, 0
            place = str(rank) if decision.count == 1 else ""
        else:
            inner += decision.count
            place = f"└ {inner}" if decision.count == 1 else "└"
        rows.append([Text(place, "dim"), *_decision_cells(decision, graph)])
    where = found.texts[mention.segment][mention.start : mention.stop]
    heading = title(f"triples of {legible(where)}", f"mention {number}, in order of rank")
    return [heading, fitted(columns, rows, width)[0]]


def _decision_cells(decision: Decision, graph: KnowledgeGraph) -> list[Text]:
    outcome = Text(in_words(decision.outcome), "green" if decision.outcome == "kept" else "yellow")
    if decision.triple < 0:
        what = f"{decision.count:,} more" if decision.count > 1 else ""
        return [Text(""), Text(what), outcome, Text("")]
    triple = triple_of(graph, decision.triple)
    return [
        Text(legible(triple.predicate)),
        Text(legible(triple.object)),
        outcome,
        Text(legible(triple.source), "dim"),
    ]
