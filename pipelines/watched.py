"""A run in front of the user: progress on the console, and what is kept when the keyboard stops it."""

from __future__ import annotations

from pipelines import engine, runners
from pipelines.display import StageProgress
from pipelines.options import Options


def execute(title: str, run: engine.Run, options: Options) -> list[engine.BlockRecord]:
    """Do the blocks of a prepared run that are missing; records of all. Raises InterruptedRunError."""
    done = sum(block.bytes for block in run.blocks if block.shard_name in run.done)
    total = sum(block.bytes for block in run.blocks)
    try:
        with StageProgress(options.console, title, len(run.blocks), total, len(run.done), done) as progress:
            return runners.execute(
                run,
                runner=options.runner,
                workers=options.workers,
                options=options.beam_options,
                watch=progress,
            )
    except KeyboardInterrupt:
        kept = sum(run.is_recorded(block) for block in run.blocks)
        raise engine.InterruptedRunError(
            f"stopped; {kept:,} of {len(run.blocks):,} blocks of {title} are kept: the same command goes on from there"
        ) from None
