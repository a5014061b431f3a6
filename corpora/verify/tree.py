"""Rules of the sentence tree: T trunk tokens, F tokens of the flattened tree, B branches of a row.

Flat index means an index into the tree tokens of all rows of the view, laid end to end.
"""

from __future__ import annotations

import numpy as np

from corpora.verify.facts import RowFacts
from corpora.verify.tokens import check_ids, is_control
from corpora.verify.view import Bools, Ints, View


def check_tree(view: View, facts: RowFacts) -> None:
    """Trunk, branches, anchors, soft positions, in that order: each relies on those before."""
    max_length, max_positions, graph = facts.tree_max_length, facts.max_positions, facts.graph
    assert max_length is not None and max_positions is not None and graph is not None  # RowFacts.read
    view = check_ids(view, "tree_ids", "tree_ids", facts.vocab_size)
    tree = view.shape("tree_ids")
    view.fail_rows(
        "tree_length",
        tree.lengths > max_length,
        lambda r: f"{tree.lengths[r]} tokens, tree_max_length is {max_length}",
    )
    _check_trunk(view)
    view = view.good()
    _check_branches(view, facts)
    triples, ids = view.shape("branch_triples"), view.flat("branch_triples")
    view.fail(
        "branch_triples",
        triples,
        (ids < 0) | (ids >= graph.triples),
        lambda i: f"branch {triples.position[i] + 1} has triple {ids[i]} of {graph.triples}",
    )
    view = view.good()
    trunk = np.flatnonzero(view.flat("tree_branch") == 0)
    special = np.isin(view.flat("input_ids"), [facts.special_ids.cls, facts.special_ids.sep])
    _check_anchors(view, trunk, special)
    _check_positions(view, trunk, max_positions)


def _check_trunk(view: View) -> None:
    """What is on no branch equals the row's tokens."""
    tree, tokens, branch = view.shape("tree_ids"), view.shape("input_ids"), view.flat("tree_branch")
    count = tree.per_row(branch == 0)
    view.fail_rows(
        "tree_trunk",
        count != tokens.lengths,
        lambda r: f"{count[r]} tokens of the tree are on no branch, the row has {tokens.lengths[r]} tokens",
    )
    same = ~view.bad[tree.row]  # of rows of equal count, the trunk lines up with the tokens
    trunk = np.flatnonzero((branch == 0) & same)
    token = np.flatnonzero(~view.bad[tokens.row])
    pairs = [
        ("tree_trunk", "tree_ids", view.flat("input_ids")[token]),
        ("tree_trunk", "tree_trunk_index", tokens.position[token]),
        ("tree_token_types", "tree_token_type_ids", view.flat("token_type_ids")[token]),
        ("tree_soft_positions", "tree_soft_positions", tokens.position[token]),
    ]
    for rule, name, want in pairs:
        expected = np.full(len(branch), -1, np.int64)
        expected[trunk] = want
        have = view.flat(name)
        view.fail(
            rule,
            tree,
            _only(trunk, have[trunk] != want, len(branch)),
            lambda i, n=name, h=have, e=expected: (  # type: ignore[misc]
                f"{n}[{tree.position[i]}] is {h[i]}, the trunk token there has {e[i]}"
            ),
        )
    index = view.flat("tree_trunk_index")
    view.fail(
        "tree_trunk",
        tree,
        (branch != 0) & (index != -1),
        lambda i: f"tree_trunk_index[{tree.position[i]}] is {index[i]} on a branch, expected -1",
    )


def _check_branches(view: View, facts: RowFacts) -> None:
    """Branches 1 to B in order, each in one piece, none in front of the trunk, no control token."""
    tree, branch, ids = view.shape("tree_ids"), view.flat("tree_branch"), view.flat("tree_ids")
    starts = np.flatnonzero(_branch_starts(branch, tree.first))
    row = tree.row[starts]
    expected = np.arange(len(starts)) - np.searchsorted(row, row) + 1
    number = dict(zip(starts.tolist(), expected.tolist(), strict=True))
    view.fail(
        "tree_branches",
        tree,
        _only(starts, branch[starts] != expected, len(branch)),
        lambda i: f"tree_branch[{tree.position[i]}] is {branch[i]}, the next branch is {number[i]}",
    )
    view.fail("tree_branches", tree, tree.first & (branch != 0), lambda i: "the tree starts with a branch")
    count, triples = np.bincount(row, minlength=len(view)), view.shape("branch_triples").lengths
    view.fail_rows(
        "branch_triples", count != triples, lambda r: f"{count[r]} branches, but {triples[r]} triples"
    )
    view.fail(
        "tree_ids",
        tree,
        (branch != 0) & is_control(ids, facts.special_ids),
        lambda i: f"tree_ids[{tree.position[i]}] is the control token {ids[i]} on branch {branch[i]}",
    )


def _check_anchors(view: View, trunk: Ints, special: Bools) -> None:
    """Mentions on the trunk, and branches right after their whole anchor or a sibling.

    `trunk` int64[T of all rows]: flat index of each trunk token, in line with `special`.
    """
    tree, branch, mention = view.shape("tree_ids"), view.flat("tree_branch"), view.flat("tree_mention")
    total, tokens = len(branch), view.shape("input_ids")
    off = np.flatnonzero(branch != 0)

    def tell(i: int) -> str:
        return f"tree token {tree.position[i]} (branch {branch[i]}) has mention {mention[i]}"

    # Along the trunk: an anchor is a run of one mention.
    anchor = mention[trunk].astype(np.int64)
    opens = tokens.first.copy()
    opens[1:] |= anchor[1:] != anchor[:-1]
    run = np.flatnonzero(opens & (anchor >= 0))
    falls = np.zeros(len(run), bool)
    falls[1:] = (anchor[run][1:] <= anchor[run][:-1]) & (tokens.row[run][1:] == tokens.row[run][:-1])
    wrong = _only(trunk, anchor < -1, total) | _only(trunk[run], falls, total)
    view.fail("tree_mention", tree, wrong, lambda i: f"{tell(i)}, which does not rise along the trunk")
    wrong = _only(trunk, special & (anchor >= 0), total)
    view.fail("tree_anchor", tree, wrong, lambda i: f"{tell(i)} on a special token")
    closes = np.append(opens[1:], True)
    follows = np.append(branch, 0)[trunk + 1] != 0  # the tree goes on with a branch
    wrong = _only(trunk, follows & (anchor >= 0) & ~closes, total)
    view.fail("tree_anchor", tree, wrong, lambda i: f"{tell(i)}: a branch splits its anchor")
    wrong = _only(trunk, ~follows & (anchor >= 0) & closes, total)
    view.fail("tree_anchor", tree, wrong, lambda i: f"{tell(i)}: no branch follows this anchor")
    # On branches.
    starts = branch[off] != branch[off - 1]
    wrong = _only(off, mention[off] < 0, total)
    wrong |= _only(off, ~starts & (mention[off] != mention[off - 1]), total)
    view.fail("tree_mention", tree, wrong, lambda i: f"{tell(i)}, expected its anchor's")
    wrong = _only(off, starts & (mention[off] != mention[off - 1]), total)
    view.fail(
        "tree_anchor",
        tree,
        wrong,
        lambda i: f"{tell(i)} but stands behind mention {mention[i - 1]}: expected its anchor or a sibling",
    )


def _check_positions(view: View, trunk: Ints, max_positions: int) -> None:
    """Branches count on from their anchor's last token, and have its type."""
    tree, branch = view.shape("tree_ids"), view.flat("tree_branch")
    soft, types = view.flat("tree_soft_positions").astype(np.int64), view.flat("tree_token_type_ids")
    off = np.flatnonzero(branch != 0)
    behind = trunk[np.searchsorted(trunk, off) - 1]  # the trunk token before each branch token
    ahead = np.where(branch[off] == branch[off - 1], off - 1, behind)
    view.fail(
        "tree_soft_positions",
        tree,
        _only(off, soft[off] != soft[ahead] + 1, len(branch)) | (soft >= max_positions),
        lambda i: (
            f"tree token {tree.position[i]} (branch {branch[i]}) has soft position {soft[i]} "
            f"behind {soft[i - 1]}; max_positions is {max_positions}"
        ),
    )
    view.fail(
        "tree_token_types",
        tree,
        _only(off, types[off] != types[behind], len(branch)),
        lambda i: f"tree token {tree.position[i]} has type {types[i]}, not its anchor's",
    )


def _branch_starts(branch: Ints, first: Bools) -> Bools:
    starts = branch != 0
    starts[1:] &= (branch[1:] != branch[:-1]) | first[1:]
    return starts


def _only(at: Ints, flags: Bools, total: int) -> Bools:
    """bool[total]: true at those of the indices `at` that are flagged."""
    result = np.zeros(total, bool)
    result[at[flags]] = True
    return result
