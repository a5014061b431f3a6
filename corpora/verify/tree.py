"""Rules of the sentence tree: T trunk tokens, F tokens of the flattened tree, B branches of a row.

Flat index means an index into the tree tokens of all rows of the view, laid end to end.
"""

from __future__ import annotations

import numpy as np

from corpora.verify.branch_tokens import BranchTokens, check_branch_tokens
from corpora.verify.facts import RowFacts
from corpora.verify.tokens import check_ids, is_control
from corpora.verify.view import Bools, Ints, View


def check_tree(view: View, facts: RowFacts, branch_tokens: BranchTokens | None = None) -> None:
    """Trunk, branches, parents, anchors, soft positions, in that order: each relies on those before."""
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
    _check_parents(view)
    view = view.good()
    if branch_tokens is not None:
        check_branch_tokens(view, branch_tokens)
    trunk = np.flatnonzero(view.flat("tree_branch") == 0)
    ids = view.flat("input_ids")
    special = (ids == facts.special_ids.cls) | (ids == facts.special_ids.sep)
    _check_anchors(view, trunk, special)
    _check_positions(view, max_positions)


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
        have = view.flat(name)
        view.fail_at(
            rule,
            tree,
            trunk[have[trunk] != want],
            lambda i, n=name, h=have, w=want: (  # type: ignore[misc]
                f"{n}[{tree.position[i]}] is {h[i]}, the trunk token there has {w[np.searchsorted(trunk, i)]}"
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
    view.fail_at(
        "tree_branches",
        tree,
        starts[branch[starts] != expected],
        lambda i: (
            f"tree_branch[{tree.position[i]}] is {branch[i]}, "
            f"the next branch is {expected[np.searchsorted(starts, i)]}"
        ),
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


def _check_parents(view: View) -> None:
    """A branch hangs from the trunk, or from a branch of the trunk and right behind it and its children.

    Rows of `view` have their branches numbered in order, each in one piece.
    """
    tree, branch = view.shape("tree_ids"), view.flat("tree_branch")
    branches, parents = view.shape("branch_triples"), view.flat("branch_parents").astype(np.int64)
    number = branches.position + 1

    def tell(b: int) -> str:
        return f"branch {number[b]} has parent {parents[b]}"

    wrong = (parents < 0) | (parents >= number)
    view.fail(
        "branch_parents", branches, wrong, lambda b: f"{tell(b)}, expected 0 or a branch in front of it"
    )
    child = np.flatnonzero(~wrong & (parents > 0))
    base = branches.offsets[branches.row[child]] - 1
    """Add a branch's number to this: its index among the branches of all rows."""
    of_parent = parents[base + parents[child]]
    view.fail_at(
        "branch_parents",
        branches,
        child[of_parent != 0],
        lambda b: f"{tell(b)}, which hangs from branch {of_parent[np.searchsorted(child, b)]} itself",
    )
    ahead = branch[
        np.flatnonzero(_branch_starts(branch, tree.first))[child] - 1
    ]  # trees start with a trunk token
    after = (ahead == parents[child]) | (
        (ahead > 0) & (parents[base + np.maximum(ahead, 1)] == parents[child])
    )
    view.fail_at(
        "branch_parents",
        branches,
        child[~after],
        lambda b: f"{tell(b)}, but stands behind neither it nor another branch of it",
    )


def _check_anchors(view: View, trunk: Ints, special: Bools) -> None:
    """Mentions on the trunk, and branches right after their whole anchor or a branch of it.

    `trunk` int64[T of all rows]: flat index of each trunk token, in line with `special`.
    """
    tree, branch, mention = view.shape("tree_ids"), view.flat("tree_branch"), view.flat("tree_mention")
    tokens = view.shape("input_ids")
    off = np.flatnonzero(branch != 0)

    def tell(i: int) -> str:
        return f"tree token {tree.position[i]} (branch {branch[i]}) has mention {mention[i]}"

    # Along the trunk: an anchor is a run of one mention.
    anchor = mention[trunk]
    opens = tokens.first.copy()
    opens[1:] |= anchor[1:] != anchor[:-1]
    run = np.flatnonzero(opens & (anchor >= 0))
    falls = run[1:][(anchor[run[1:]] <= anchor[run[:-1]]) & (tokens.row[run[1:]] == tokens.row[run[:-1]])]
    view.fail_at(
        "tree_mention", tree, trunk[falls], lambda i: f"{tell(i)}, which does not rise along the trunk"
    )
    view.fail_at("tree_mention", tree, trunk[anchor < -1], lambda i: f"{tell(i)}, expected -1 or more")
    on = np.flatnonzero(anchor >= 0)
    view.fail_at("tree_anchor", tree, trunk[on[special[on]]], lambda i: f"{tell(i)} on a special token")
    closes = np.append(opens[1:], True)[on]
    grafted = np.append(branch, 0)[trunk[on] + 1] != 0  # the tree goes on with a branch
    split, bare = trunk[on[grafted & ~closes]], trunk[on[~grafted & closes]]
    view.fail_at("tree_anchor", tree, split, lambda i: f"{tell(i)}: a branch splits its anchor")
    view.fail_at("tree_anchor", tree, bare, lambda i: f"{tell(i)}: no branch follows this anchor")
    # On branches.
    starts, moves = branch[off] != branch[off - 1], mention[off] != mention[off - 1]
    wrong = off[(mention[off] < 0) | (~starts & moves)]
    view.fail_at("tree_mention", tree, wrong, lambda i: f"{tell(i)}, expected its anchor's")
    view.fail_at(
        "tree_anchor",
        tree,
        off[starts & moves],
        lambda i: (
            f"{tell(i)} but stands behind mention {mention[i - 1]}: expected its anchor or a branch of it"
        ),
    )


def _check_positions(view: View, max_positions: int) -> None:
    """Branches count on from the last token of their anchor or parent, and have their anchor's type."""
    tree, branch = view.shape("tree_ids"), view.flat("tree_branch")
    branches, parents = view.shape("branch_triples"), view.flat("branch_parents")
    soft, types = view.flat("tree_soft_positions"), view.flat("tree_token_type_ids")
    off = np.flatnonzero(branch != 0)
    last = np.maximum.accumulate(np.where(branch == 0, np.arange(len(branch)), 0))[off]  # on the trunk
    opens = branch[off] != branch[off - 1]
    ahead = np.where(opens, last, off - 1)
    # A child's first token counts on from its parent's last one.
    ends = off[np.append(opens[1:], True)[: len(off)]]  # each branch's last token
    child = np.flatnonzero(parents > 0)
    parent = branches.offsets[branches.row[child]] - 1 + parents[child]
    ahead[np.flatnonzero(opens)[child]] = ends[parent]

    def tell(i: int) -> str:
        return f"tree token {tree.position[i]} (branch {branch[i]}) has soft position {soft[i]}"

    view.fail_at(
        "tree_soft_positions",
        tree,
        off[soft[off].astype(np.int32) != soft[ahead].astype(np.int32) + 1],
        lambda i: f"{tell(i)}, which does not count on from its branch or what that hangs from",
    )
    view.fail(
        "tree_soft_positions",
        tree,
        soft >= max_positions,
        lambda i: f"{tell(i)}, max_positions is {max_positions}",
    )
    view.fail_at(
        "tree_token_types",
        tree,
        off[types[off] != types[last]],
        lambda i: f"tree token {tree.position[i]} has type {types[i]}, not its anchor's",
    )


def _branch_starts(branch: Ints, first: Bools) -> Bools:
    starts = branch != 0
    starts[1:] &= (branch[1:] != branch[:-1]) | first[1:]
    return starts
