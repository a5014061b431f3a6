"""Two look-ups in a marisa trie whose own methods fall short.

`get` and `[]` of marisa-trie 1.x end a key at its first NUL (`a\\0b` is looked up as `a`), its other
methods do not; `has_keys_with_prefix` is deprecated.
"""

from __future__ import annotations

from collections.abc import Callable

import marisa_trie


def key_finder(trie: marisa_trie.Trie) -> Callable[[str], int]:
    """Function from a key to its id, -1 where it is not in the trie."""
    get, prefixes = trie.get, trie.iter_prefixes_with_ids

    def find(key: str) -> int:
        if "\0" not in key:
            return get(key, -1)
        return next((number for prefix, number in prefixes(key) if len(prefix) == len(key)), -1)

    return find


def has_longer(trie: marisa_trie.Trie, prefix: str) -> bool:
    """Whether any key starts with `prefix`."""
    return next(iter(trie.iterkeys(prefix)), None) is not None
