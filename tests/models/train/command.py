"""`treegraft`, for torchrun."""

from pipelines.cli import main

main()
