"""A trie of strings as one hash table in flat, memory-mapped arrays, walked from many places at once.

A trie asked string by string costs a microsecond or more from Python at every position of a text. Here
a *state* is a prefix of some key, an *edge* leads from a state over a code point to the next one, and
all edges lie in one open-addressed table whose slot *is* the state that the edge leads to. Stepping
from a million states at once is then a hash, one gather and one comparison of arrays.

An entry of the table is a uint64:

| bits | contents |
|---|---|
| 0 to 20 | code point of the edge |
| 21 to 48 | state that the edge comes from |
| 49 | the state is a key |
| 50 | the state has edges |
| 51 to 58 | reach: how far from this slot, at most, lie edges whose home it is |

The home of an edge is a multiplicative hash of (state, code point), scaled to the table; an edge that
finds its home taken lies in one of the next slots. A look-up that fails at home ends there unless the
home's reach says otherwise, so that most cost one gather. First characters have a table of their own,
by code point, and states past the end of the hash table.

Three million Chinese strings of 2 to 12 characters make about ten million edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kg.errors import GraphError

COLUMNS = ("automaton_root", "automaton_edges", "automaton_keys")
"""`automaton_root` uint32[largest first code point + 2], `automaton_edges` uint64[slots],
`automaton_keys` int32[slots + first characters]: the key that each state is, or -1."""

_CODE_BITS, _STATE_BITS = 21, 28
_STATE_SHIFT = np.uint64(_CODE_BITS)
_EDGE = np.uint64((1 << (_CODE_BITS + _STATE_BITS)) - 1)
_IS_KEY = np.uint64(1 << 49)
_HAS_EDGES = np.uint64(1 << 50)
_REACH_SHIFT = np.uint64(51)
_REACHES = np.uint64(1 << 51)
"""Entries from here on have a reach."""
_MAX_REACH = 255
_LOADS = (0.5, 0.35, 0.2, 0.1)
"""Shares of slots in use, tried in turn until every edge lies within reach of its home."""
_STATE_FACTOR, _CODE_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
MAX_STATES = 1 << _STATE_BITS
_MAX_CODES = 0x110000


def build(codes: np.ndarray, lengths: np.ndarray) -> dict[str, np.ndarray]:
    """The columns for K keys, which are unique, not empty and sorted by code point; key i has number i.

    `codes` are the code points of all keys, one after another, uint32[sum of lengths]; `lengths`
    their lengths, int[K]. The same keys give the same arrays.

    Raises GraphError where there are more prefixes than a state can number.
    """
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    shared = _shared_with_previous(codes, offsets[:-1], lengths)
    edges = int(lengths.sum() - shared.sum())
    for load in _LOADS:
        slots = max(int(edges / load), 64)
        if slots + _MAX_REACH + _MAX_CODES > MAX_STATES:
            raise GraphError(
                f"the subjects have {edges:,} different prefixes, at most {int(MAX_STATES * _LOADS[0]):,} fit in one "
                "graph; compile the triples into several graphs, or leave out long subjects"
            )
        if (columns := _place(codes, offsets[:-1], lengths, shared, slots)) is not None:
            return columns
    raise GraphError("the subjects collide in the hash table at every size tried; they seem made for that")


def _shared_with_previous(codes: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Length of the prefix that each key shares with the one before it, int32[K]."""
    shared = np.zeros(len(lengths), np.int32)
    same = np.arange(1, len(lengths))
    depth = 0
    while len(same):
        same = same[(lengths[same] > depth) & (lengths[same - 1] > depth)]
        same = same[codes[starts[same] + depth] == codes[starts[same - 1] + depth]]
        depth += 1
        shared[same] = depth
    return shared


def _place(
    codes: np.ndarray, starts: np.ndarray, lengths: np.ndarray, shared: np.ndarray, slots: int
) -> dict[str, np.ndarray] | None:
    """The columns with `slots` homes, or None where an edge finds no place near its home."""
    size = slots + _MAX_REACH + 1
    table = np.zeros(size, np.uint64)
    table[0] = _EDGE  # no state: 0 stands for none
    reach = np.zeros(size, np.uint8)
    count = len(lengths)

    first_codes = codes[starts]
    new = shared == 0
    firsts = first_codes[new]
    root = np.zeros(int(firsts.max()) + 2 if count else 2, np.uint32)
    root[firsts] = size + np.arange(len(firsts), dtype=np.uint32)
    keys = np.full(size + len(firsts), -1, np.int32)

    active = np.arange(count)
    state = root[first_codes].astype(np.uint64)  # of each active key's prefix
    depth = 1
    while len(active):
        done = lengths[active] == depth
        keys[state[done]] = active[done]
        active, state = active[~done], state[~done]
        if not len(active):
            break
        step = codes[starts[active] + depth].astype(np.uint64)
        new = shared[active] <= depth
        new_slots = _insert(table, reach, slots, state[new], step[new])
        if new_slots is None:
            return None
        state = new_slots[np.cumsum(new) - 1]
        depth += 1
    used = table != 0
    parents = (table[used] & _EDGE) >> _STATE_SHIFT
    table[parents[parents < size]] |= _HAS_EDGES
    table[keys[:size] >= 0] |= _IS_KEY
    table |= reach.astype(np.uint64) << _REACH_SHIFT
    return {"automaton_root": root, "automaton_edges": table, "automaton_keys": keys}


def _insert(
    table: np.ndarray, reach: np.ndarray, slots: int, states: np.ndarray, codes: np.ndarray
) -> np.ndarray | None:
    """Slots, uint64, of the edges (state, code point), all different, put into the table."""
    entries = codes | states << _STATE_SHIFT
    homes = _home(states, codes, slots)
    placed = np.zeros(len(entries), np.uint64)
    left = np.arange(len(entries))
    for distance in range(_MAX_REACH + 1):
        at = homes[left] + distance
        free = table[at] == 0
        table[at[free]] = entries[left[free]]  # of several that want one slot, the last gets it
        won = table[at] == entries[left]
        placed[left[won]] = at[won]
        near = homes[left[won]]
        reach[near] = np.maximum(reach[near], distance)
        left = left[~won]
        if not len(left):
            return placed
    return None


def _home(states: np.ndarray, codes: np.ndarray, slots: int) -> np.ndarray:
    """Home slots of edges, int64."""
    mixed = states * _STATE_FACTOR
    mixed += codes * _CODE_FACTOR
    mixed >>= _HALF
    mixed *= np.uint64(slots)
    mixed >>= _HALF
    return mixed.view(np.int64)


class Automaton:
    """The trie, to be walked by many at once. A state is a uint64; 0 stands for none."""

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        """Raises GraphError where the arrays cannot be those of a trie."""
        root, edges, keys = (columns[name] for name in COLUMNS)
        slots = len(edges) - _MAX_REACH - 1
        dtypes = (root.dtype, edges.dtype, keys.dtype) == (np.uint32, np.uint64, np.int32)
        if not dtypes or len(root) < 2 or not 0 < slots < MAX_STATES or len(keys) < len(edges):
            raise GraphError("the automaton of the subjects is damaged; compile the triples again")
        self._root, self._edges, self._keys, self._slots = root, edges, keys, slots

    def first(self, codes: np.ndarray) -> np.ndarray:
        """States after the first characters `codes`, uint64[n] both; 0 where no key starts so."""
        return self._root.take(codes.view(np.int64), mode="clip").astype(np.uint64)

    def step(self, states: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Follow the edges over `codes` from `states`, uint64[n] each.

        Returns (which, next, entries) of those that have such an edge: their indices, int64[m],
        ascending; the states they come to, uint64[m]; and the edges' entries, uint64[m], for `at_key`
        and `goes_on`.
        """
        # In place wherever possible: an array more is a trip through the cache more.
        wanted = codes * _CODE_FACTOR
        home = states * _STATE_FACTOR
        home += wanted
        home >>= _HALF
        home *= np.uint64(self._slots)
        home >>= _HALF
        at = home.view(np.int64)
        entries = self._edges.take(at)
        np.left_shift(states, _STATE_SHIFT, out=wanted)
        wanted |= codes
        other = entries ^ wanted
        other &= _EDGE
        hit = other == 0
        further = entries >= _REACHES
        further &= ~hit
        if len(missed := np.flatnonzero(further)):
            self._search(missed, wanted, at, entries, hit)
        which = np.flatnonzero(hit)
        return which, home.take(which), entries.take(which)

    def _search(
        self, missed: np.ndarray, wanted: np.ndarray, at: np.ndarray, entries: np.ndarray, hit: np.ndarray
    ) -> None:
        """Look for edges that are not at home, ever more slots at a time; `at`, `entries`, `hit` are corrected."""
        home, want = at.take(missed), wanted.take(missed)
        reach = (entries.take(missed) >> _REACH_SHIFT).astype(np.int64)
        near, width = 1, 1
        while len(missed):
            slots = home[:, None] + np.arange(near, near + width)
            found = self._edges.take(slots, mode="clip")
            index = np.flatnonzero(((found ^ want[:, None]) & _EDGE) == 0)
            owner = index // width
            which = missed.take(owner)
            hit[which] = True
            at[which] = slots.ravel().take(index)
            entries[which] = found.ravel().take(index)
            near += width
            width *= 4
            open_still = reach >= near
            open_still[owner] = False
            left = np.flatnonzero(open_still)
            missed, home, want, reach = (column.take(left) for column in (missed, home, want, reach))

    @staticmethod
    def at_key(entries: np.ndarray) -> np.ndarray:
        """Indices of the entries that lead to a key, int64."""
        return np.flatnonzero(entries & _IS_KEY)

    @staticmethod
    def goes_on(entries: np.ndarray) -> np.ndarray:
        """Indices of the entries behind which there are edges, int64."""
        return np.flatnonzero(entries & _HAS_EDGES)

    def key(self, states: np.ndarray) -> np.ndarray:
        """Numbers of the keys that states are, int32[n]; -1 where a state is only a prefix."""
        return self._keys.take(states.view(np.int64), mode="clip")

    def exact(self, codes: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """Numbers of the keys that `codes[starts[i]:stops[i]]` are, int32[n]; -1 where it is no key.

        `codes` uint64[N]; `starts` and `stops` int64[n].
        """
        found = np.full(len(starts), -1, np.int32)
        which = np.flatnonzero(stops > starts)
        states = self.first(codes.take(starts.take(which)))
        depth = 1
        while True:
            alive = np.flatnonzero(states)
            which, states = which.take(alive), states.take(alive)
            ends = starts.take(which) + depth == stops.take(which)
            found[which[ends]] = self.key(states[ends])
            onward = np.flatnonzero(~ends)
            if not len(onward):
                return found
            which, states = which.take(onward), states.take(onward)
            hit, states, _ = self.step(states, codes.take(starts.take(which) + depth))
            which = which.take(hit)
            depth += 1

    def find(self, keys: Sequence[str]) -> np.ndarray:
        """Numbers of whole keys, int32[n]; -1 for what is none. Lone surrogates are in no key."""
        codes = np.frombuffer("".join(keys).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
        lengths = np.fromiter(map(len, keys), np.int64, len(keys))
        stops = np.cumsum(lengths)
        return self.exact(codes, stops - lengths, stops)
