"""RDF against a loop: each line parsed alone, labels in a dict, the rules one statement at a time."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_to_bytes

import pyoxigraph as ox
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.read.options import LABELS
from tests.kg.read.reading import WHITE, Slow, blocks_of, has_control, read

LABEL = f"<{LABELS[0]}>"


def slow_n_triples(content: bytes, language: str | None, local: bool) -> Slow:
    """Each line parsed alone, labels in a dict."""
    slow, quads, best = Slow(), [], {}

    def fit(tag: str | None) -> int | None:
        if language is None:
            return 0
        return 2 if tag is None else 0 if tag == language else 1 if tag.startswith(language + "-") else None

    def usable(text: str) -> bool:
        return bool(text.strip(WHITE)) and not has_control(text.strip(WHITE))

    for number, line in slow.lines(content):
        try:
            (quad,) = ox.parse(line + "\n", format=ox.RdfFormat.N_TRIPLES)
            if "\r" in line.rstrip():
                raise ValueError
        except (SyntaxError, ValueError):
            slow.rejected.append((number, "bad_syntax"))
            continue
        quads.append((number, quad))
        s, p, o = quad.subject, quad.predicate, quad.object
        if (
            p.value in LABELS
            and isinstance(o, ox.Literal)
            and isinstance(s, ox.NamedNode)
            and usable(o.value)
        ):
            rank = fit(o.language)
            if rank is not None:
                key = (LABELS.index(p.value), rank, o.value.strip(WHITE))
                best[s.value] = min(best.get(s.value, key), key)

    def local_name(iri: str) -> str:
        name = re.split("[/#]", iri)[-1]
        with suppress(UnicodeDecodeError):
            name = unquote_to_bytes(name).decode()
        return name.replace("_", " ").strip(WHITE)

    def text_of(node: Any) -> str:
        if not isinstance(node, ox.NamedNode):
            return ""
        return best[node.value][2] if node.value in best else local_name(node.value) if local else ""

    for number, quad in quads:
        s, p, o = quad.subject, quad.predicate, quad.object
        literal = isinstance(o, ox.Literal)
        subject, object_ = text_of(s), o.value.strip(WHITE) if literal else text_of(o)
        predicate = best[p.value][2] if p.value in best else local_name(p.value)
        if literal and fit(o.language) is None:
            slow.left_out["other_language"] += 1
        elif literal and p.value in LABELS:
            if not object_:
                slow.rejected.append((number, "empty_object"))
            elif has_control(object_):
                slow.rejected.append((number, "control_character"))
            else:
                slow.left_out["label"] += 1
        elif not subject or (not object_ and not literal):
            slow.left_out["no_label"] += 1
        else:
            slow.triple(number, subject, predicate, object_)
    return slow


nodes = st.sampled_from(["<http://x/a>", "<http://x/b_c>", "<http://x/%00>", "<http://x/>", "_:b", "<bad>"])
properties = st.sampled_from(["<http://x/p>", LABEL, f"<{LABELS[1]}>", "<http://x/a>", "<http://x#>"])
literals = st.tuples(
    st.sampled_from(
        ['"甲"', '"a"', '"b\u2028"', '""', '" \u3000"', '"\\u0007"', '"\\n"', '"\r"', '"open', '"\\"\\\\"']
    ),
    st.sampled_from(["", "", "@zh", "@zh-CN", "@en", "^^<http://x/t>"]),
).map("".join)
statements = st.tuples(nodes, properties, nodes | literals, st.sampled_from([" .\n"] * 6 + [" . # c\n", "\n", " ", " .", ".\r\n", " .\r"])).map(
    lambda t: f"{t[0]} {t[1]} {t[2]}{t[3]}"
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    lines=st.lists(statements | st.sampled_from(["\n", "# c\n", ".\n", "<http://x/a>\n"]), max_size=14),
    language=st.sampled_from([None, "zh", "en"]),
    local=st.booleans(),
    block=st.integers(20, 400),
)
def test_blocks_equal_a_loop_over_lines(
    lines: list[str], language: str | None, local: bool, block: int
) -> None:
    content = "".join(lines).encode()
    with blocks_of(block):
        found = read(content, "a.nt", language=language, unlabelled="local_name" if local else "skip")
    slow_n_triples(content, language, local).check(found)


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(statements.filter(lambda s: s.endswith(" .\n") and not re.search(r'bad|"open|"\r"', s)), max_size=14),
    language=st.sampled_from([None, "zh"]),
)  # fmt: skip
def test_turtle_equals_n_triples(lines: list[str], language: str | None) -> None:
    content = "".join(lines).encode()
    rows, counts, rejects = read(content, "a.ttl", language=language)
    same_rows, same_counts, same_rejects = read(content, "a.nt", language=language)
    assert (rows, counts) == (same_rows, same_counts)  # one statement a line: number and line are the same
    assert [(r.line, r.reason) for r in rejects] == [(r.line, r.reason) for r in same_rejects]
