"""Checks a finished folder against everything it promises: `verify(folder)`.

Hashes, sizes, schemas and every invariant of the two Arrow contracts, streamed a record batch at
a time with numpy on flattened lists. It trusts nothing: an edited, truncated, swapped, foreign or
hostile file ends as a problem in the report, never as a crash or a path outside the folder.
"""

from corpora.verify.branch_tokens import BranchTokens
from corpora.verify.folder import verify
from corpora.verify.report import RULES, Problem, Report

__all__ = ["RULES", "BranchTokens", "Problem", "Report", "verify"]
