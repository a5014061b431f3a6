"""Columns of tables: found by name, their types held against what a record's fields may be.

A dotted name leads into structs (`translation.de`), unless a column has that very name. Label numbers become names
where the schema says so: `datasets` writes its features, and the names of a `ClassLabel`, into the schema's
metadata.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from corpora.layout import InputConfig
from corpora.readers.columns import ColumnError
from corpora.readers.fields import Values, field_names, where_labels_lack

types = pa.types


@dataclass(frozen=True)
class TableColumn:
    """A column, or what a struct in it holds: `keys` lead into it. `names` are those of its label numbers."""

    name: str
    top: str
    keys: tuple[str, ...]
    type: pa.DataType
    names: tuple[str, ...] | None

    @property
    def path(self) -> str:
        """What Parquet calls it."""
        return ".".join((self.top, *self.keys))

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Its values in a batch; null where a struct around it is."""
        array = batch.column(batch.schema.get_field_index(self.top))
        for key in self.keys:
            array = pc.struct_field(_storage(array), key)
        return _storage(array)


@dataclass(frozen=True)
class TableColumns:
    """The columns of each role, None where it has none; a text of several columns has a list of them.

    `more`: others that are there, by name.
    """

    roles: Values
    more: Mapping[str, TableColumn] = field(default_factory=dict)

    def __iter__(self) -> Iterator[TableColumn]:
        for role in self.roles:
            yield from role if isinstance(role, list) else [role] if role is not None else []
        yield from self.more.values()


def find_table_columns(
    schema: pa.Schema, name: str, layout: InputConfig, *, may_lack_label: bool, more: Sequence[str] = ()
) -> TableColumns:
    """Columns of the roles that `layout` names, in a file called `name`, and those of `more` that it has.

    Raises:
        ColumnError: a column is missing, stands there twice or holds what its role cannot be; the message names
            the file, near matches and the columns there are.
    """
    features = _features(schema)
    roles: list[Any] = []
    for role, named in zip(Values._fields, field_names(layout), strict=True):
        fields = named if isinstance(named, list) else [] if named is None else [named]
        found = [_find(one, role, schema, features, name) for one in fields]
        if role == "label" and found == [None] and may_lack_label:
            found = []
        for one, column in zip(fields, found, strict=False):
            if column is None:
                raise _missing(one, role, schema, name, layout)
            _check_type(column, role, name)
        roles.append(found if isinstance(named, list) else found[0] if found else None)
    others = {one: _find(one, "", schema, features, name) for one in more}
    return TableColumns(Values(*roles), {one: column for one, column in others.items() if column is not None})


def _find(path: str, role: str, schema: pa.Schema, features: Any, name: str) -> TableColumn | None:
    indices = schema.get_all_field_indices(path)
    if len(indices) > 1:
        why = f" (input.{role})" if role else ""
        raise ColumnError(f"{name} has the column {path!r}{why} {len(indices)} times")
    top, *keys = [path] if indices else path.split(".")
    indices = schema.get_all_field_indices(top)
    if len(indices) != 1:
        return None
    kind, feature = _storage_type(schema.field(indices[0]).type), _inner(features, top)
    for key in keys:
        if not types.is_struct(kind) or kind.get_field_index(key) < 0:
            return None
        kind, feature = _storage_type(kind.field(key).type), _inner(feature, key)
    return TableColumn(path, top, tuple(keys), kind, _class_names(feature))


def _missing(path: str, role: str, schema: pa.Schema, name: str, layout: InputConfig) -> ColumnError:
    names = list(_all_names(schema))
    shown = ", ".join(repr(n) for n in names[:30]) + (", ..." if len(names) > 30 else "")
    near = difflib.get_close_matches(path, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    if role == "label":
        hint += where_labels_lack(layout)
    return ColumnError(f"{name} has no column {path!r} (input.{role}); columns: {shown}{hint}")


def _all_names(fields: Any, before: str = "", depth: int = 0) -> Iterator[str]:
    for one in fields:
        yield before + one.name
        kind = _storage_type(one.type)
        if types.is_struct(kind) and depth < 8:
            inner = [kind.field(i) for i in range(kind.num_fields)]
            yield from _all_names(inner, f"{before}{one.name}.", depth + 1)


# --- types ------------------------------------------------------------------------------------


def _storage(array: pa.Array) -> pa.Array:
    return _storage(array.storage) if isinstance(array, pa.ExtensionArray) else array


def _storage_type(kind: pa.DataType) -> pa.DataType:
    return _storage_type(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def is_text(kind: pa.DataType) -> bool:
    """Strings of any width, also as a dictionary, or bytes: some writers do not say that theirs are text."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        test(kind)
        for test in (
            types.is_string,
            types.is_large_string,
            types.is_string_view,
            types.is_binary,
            types.is_large_binary,
            types.is_binary_view,
        )
    )


def is_list(kind: pa.DataType) -> bool:
    """Lists of any kind."""
    return any(
        test(kind)
        for test in (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        )
    )


def _is_value(kind: pa.DataType) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return is_text(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _check_type(column: TableColumn, role: str, name: str) -> None:
    kind = column.type
    item = _storage_type(kind.value_type) if is_list(kind) else kind
    if role == "text" or role == "text_pair":
        good, expected = is_text(item), "strings, or lists of strings"
    elif role == "label":  # of sequences, a list; of mentions, a struct
        good, expected = _is_value(item) or types.is_null(item) or types.is_struct(item), "strings or numbers"
    elif role == "id":
        good, expected = _is_value(kind), "strings or numbers"
    else:
        good, expected = is_text(kind) or types.is_null(kind), "strings"
    if not good:
        hint = ""
        if types.is_struct(kind) and kind.num_fields:
            hint = f"; name what is in it, such as {column.name + '.' + kind.field(0).name!r}"
        raise ColumnError(
            f"{name}: the column {column.name!r} (input.{role}) must hold {expected}, but its type is {kind}{hint}"
        )


# --- features of `datasets` -------------------------------------------------------------------


def _features(schema: pa.Schema) -> Any:
    raw = (schema.metadata or {}).get(b"huggingface")
    try:
        return json.loads(raw)["info"]["features"] if raw else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None  # somebody else's metadata: numbers stay numbers


def _inner(feature: Any, key: str) -> Any:
    feature = _item(feature)
    return feature.get(key) if isinstance(feature, dict) else None


def _item(feature: Any) -> Any:
    """What the lists around it hold."""
    for _ in range(8):
        if isinstance(feature, list) and len(feature) == 1:
            feature = feature[0]
        elif isinstance(feature, dict) and feature.get("_type") in ("Sequence", "List", "LargeList"):
            feature = feature.get("feature")
    return feature


def _class_names(feature: Any) -> tuple[str, ...] | None:
    feature = _item(feature)
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    names: Sequence[Any] | None = feature.get("names")
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        return None
    return tuple(names)
