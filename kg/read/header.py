"""Header lines: which column has which role, told by the words in it."""

from __future__ import annotations

from collections.abc import Sequence

from kg.read.options import ROLES

_WORDS = {
    "subject": "subject subj head entity concept node1 source 主语 主体 主词 实体 头实体",
    "predicate": "predicate pred relation rel relationship property attribute 谓语 谓词 关系 属性",
    "object": "object obj tail value target node2 宾语 客体 宾词 值 属性值 尾实体",
}
_ROLE = {word: role for role, words in _WORDS.items() for word in words.split()}


def is_header(fields: Sequence[str]) -> bool:
    """Whether a line of two or three fields or more names subject and object, and nothing but roles."""
    roles = [_role(field) for field in fields]
    return "subject" in roles and "object" in roles and None not in roles and len(set(roles)) == len(roles)


def suggestion(fields: Sequence[str]) -> str:
    """The option `columns` that fits a header: by its words, or else in the order of a triple."""
    roles = {role: name for name in fields if (role := _role(name))}
    if "subject" not in roles or "object" not in roles:
        order = ROLES if len(fields) > 2 else ("subject", "object")
        roles = dict(zip(order, fields, strict=False))
    return f"`columns: {{{', '.join(f'{role}: {roles[role]}' for role in ROLES if role in roles)}}}`"


def delimiter_hint(field: str) -> str:
    """What to say where a whole header stands in one column."""
    for char, shown in ((";", ";"), ("\t", "\\t"), ("|", "|"), (",", ",")):
        if char in field:
            return f"give `delimiter: '{shown}'`"
    return ""


def _role(field: str) -> str | None:
    return _ROLE.get(field.strip().lower().replace(" ", "").replace("_", ""))
