"""What `--dry-run` finds out: the plan, and whether the first records of each split are as the config says."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Any

from rich.text import Text

from corpora.preview import LOOKED_AT, FirstRecords, first_records
from corpora.readers.fields import shown_names
from pipelines import flow
from pipelines.annotate.stage import Annotate
from pipelines.config import Config, ConfigError
from pipelines.dedup.flow import Deduplication
from pipelines.display import counts
from pipelines.engine import RunError
from pipelines.graphs import check_graph
from pipelines.options import Options
from pipelines.view.legible import legible

_USELESS = 0.95
"""Share of the first records of a split beyond which their rejection is an error: the config is of another corpus."""


def describe_plan(config: Config, config_path: str, options: Options) -> dict[str, Any]:
    """Per split blocks, bytes as stored and files. A graph must be there, too; parser and segmenter are loaded.

    Raises:
        ConfigError: what would stop the run before any work, a model that cannot be loaded, or a field that none of
            the first records has.
        RunError: of the first records of a split hardly one can be used.
    """
    check_graph(config, config_path, options.console)
    plan = flow.plan_annotate(config, config_path, options)
    Annotate(config, config_path).try_out()
    flow.note_splits_left_out(config, config_path, options)
    if config.dedup is not None:
        Deduplication(config, config_path, options.out, config.dedup)
    splits: dict[str, Counter[str]] = {}
    for block in plan.run.blocks:
        splits.setdefault(block.split, Counter()).update(
            blocks=1, bytes=block.bytes, files=len({p.path for p in block.parts})
        )
    useless = []
    for found in first_records(plan.run.blocks, config.input, config.task, config.language):
        _refuse_absent_fields(found)
        if len(found.rejects) > _USELESS * (found.rows + len(found.rejects)):
            useless.append(_rejects(found))
        elif found.rejects:
            options.console.print(Text(_rejects(found), "yellow"), soft_wrap=True)
    if useless:
        raise RunError("\n".join(useless))
    return {name: dict(counts) for name, counts in splits.items()}


def _refuse_absent_fields(found: FirstRecords) -> None:
    if not found.absent:
        return
    lines = []
    for role, name in found.absent:
        near = difflib.get_close_matches(name, found.fields, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        lines.append(
            f"input.{role}: none of the first records ({LOOKED_AT} at most) of split {found.split!r} has the field "
            f"{name!r}; they have {shown_names(found.fields)}{hint}"
        )
    raise ConfigError("\n".join(lines))


def _rejects(found: FirstRecords) -> str:
    reasons = counts(Counter(reject.reason for reject in found.rejects))
    first = found.rejects[0]
    place = f"{first.path}, " + (f"byte {first.byte}" if first.line is None else f"line {first.line}")
    share = "" if found.rows else " and no other could be used"
    text = f"split {found.split!r}: of its first records {len(found.rejects)} would be rejected{share} ({reasons}). "
    return legible(f"{text}The first, {place}: {first.detail[:500]}")
