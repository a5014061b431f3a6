"""Whether branches say what their triples say: neither half a triple nor more than one.

What a triple says in tokens is known to whoever has the graph and the tokenizer, so `verify` is given a
function for it. Only the distinct triples of some hundred rows are asked for at a time.

Shapes: F tokens of the flattened trees and B branches of all rows of the view.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from corpora.verify.view import Ints, View

BranchTokens = Callable[[npt.NDArray[np.int64]], tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]]
"""n ids of triples, rising, to the tokens of all of them and offsets [n+1]: triple i has tokens
`offsets[i]:offsets[i + 1]`."""
_SHOWN = 8


def check_branch_tokens(view: View, tokens_of: BranchTokens) -> None:
    """Each branch is its triple's tokens, all of them and nothing else.

    Rows of `view` have trees that start with a trunk token, branches numbered in order, each in one
    piece, and a triple of the graph for each. Where `tokens_of` cannot look up anything (ValueError or
    OSError: graph or tokenizer are damaged) that is one problem, of the rule `graph`, and it is not asked
    again; with an IndexError it lacks one of these triples, and the rows with branches break the rule.
    """
    branches, triples = view.shape("branch_triples"), view.flat("branch_triples")
    if not len(triples) or view.is_broken("graph"):
        return
    branch, ids = view.flat("tree_branch"), view.flat("tree_ids")
    distinct, kind = np.unique(triples, return_inverse=True)
    try:
        wanted, offsets = tokens_of(distinct)
    except (ValueError, OSError) as error:
        view.fail_folder("graph", f"the branches cannot be compared with their triples: {error}")
        return
    except IndexError as error:
        reason = f"the triples of its branches cannot be looked up: {error}"
        view.fail_rows("branch_tokens", branches.lengths > 0, lambda r: reason)
        return
    on = np.flatnonzero(branch != 0)
    opens = branch[on] != branch[on - 1]
    of = np.cumsum(opens) - 1  # index among all branches
    starts = np.append(np.flatnonzero(opens), len(on))
    begins, want = offsets[:-1][kind], np.diff(offsets)[kind]
    wrong = np.diff(starts) != want
    step = np.arange(len(on)) - starts[of]
    compared = ~wrong[of]
    differs = ids[on[compared]] != wanted[(begins[of] + step)[compared]]
    wrong[of[compared][differs]] = True

    def detail(b: int) -> str:
        have = ids[on[starts[b] : starts[b + 1]]]
        return (
            f"branch {branches.position[b] + 1} is {_some(have)}, "
            f"its triple {triples[b]} is {_some(wanted[begins[b] : begins[b] + want[b]])}"
        )

    view.fail("branch_tokens", branches, wrong, detail)


def _some(tokens: Ints) -> str:
    shown = ", ".join(map(str, tokens[:_SHOWN].tolist()))
    more = f", ... ({len(tokens)} tokens)" if len(tokens) > _SHOWN else ""
    return f"[{shown}{more}]"
