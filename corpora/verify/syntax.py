"""Rules of the syntax columns: T tokens, W words of a row."""

from __future__ import annotations

import numpy as np

from corpora.verify.view import Bools, Ints, View, endless


def check_syntax(view: View, special: Bools, segment: Ints, deprels: int) -> None:
    """Words of tokens, heads, relations, depth-first intervals, sentences.

    `special` bool[T of all rows], `segment` int64[T of all rows]; rows of `view` are known to have
    their control tokens in place.
    """
    words, heads = view.shape("word_heads"), view.flat("word_heads")
    relations = view.flat("word_deprels")
    view.fail(
        "deprels",
        words,
        (relations < 0) | (relations >= deprels),
        lambda i: f"word {words.position[i]} has relation {relations[i]} of {deprels}",
    )
    view.fail(
        "heads_range",
        words,
        (heads < 0) | (heads >= words.lengths[words.row]),
        lambda i: f"word {words.position[i]} has head {heads[i]} among {words.lengths[words.row[i]]} words",
    )
    loose = view.bad[words.row]  # heads of these rows are not looked at again
    here = np.arange(len(heads))
    absolute = np.where(loose, here, heads + words.offsets[words.row])
    word_segment = _check_words(view, special, segment)
    _check_sentences(view, absolute, word_segment)
    view.fail(
        "heads_cycle",
        words,
        endless(absolute),
        lambda i: f"the heads of word {words.position[i]} run in a circle",
    )
    _check_intervals(view, absolute, loose)


def _check_words(view: View, special: Bools, segment: Ints) -> Ints:
    """word_index; returns the segment of each word, int64[W of all rows], -1 where no token says it."""
    tokens, words, index = view.shape("word_index"), view.shape("word_heads"), view.flat("word_index")
    view.fail(
        "word_index",
        tokens,
        (index == -1) != special,
        lambda i: f"{'special ' if special[i] else ''}token {tokens.position[i]} is of word {index[i]}",
    )
    plain = np.flatnonzero(~special)
    row, word, part = tokens.row[plain], index[plain].astype(np.int64), segment[plain]
    step, opens = np.ones(len(plain), np.int64), np.ones(len(plain), bool)
    step[1:] = word[1:] - word[:-1]
    opens[1:] = row[1:] != row[:-1]
    turns = np.zeros(len(plain), bool)
    turns[1:] = part[1:] != part[:-1]
    wrong = np.where(opens, word != 0, (step < turns) | (step > 1))
    wrong |= word >= words.lengths[row]
    flags = np.zeros(len(index), bool)
    flags[plain[wrong]] = True
    view.fail(
        "word_index",
        tokens,
        flags,
        lambda i: (
            f"token {tokens.position[i]} is of word {index[i]}, which does not follow on the word before it"
        ),
    )
    used = np.zeros(len(view), np.int64)
    ends = np.append(opens[1:], True)[: len(plain)]
    used[row[ends]] = word[ends] + 1
    view.fail_rows(
        "word_index",
        used != words.lengths,
        lambda r: f"{words.lengths[r]} words, but tokens are of {used[r]}: a word without tokens",
    )
    word_segment = np.full(int(words.offsets[-1]), -1, np.int64)
    sound = ~view.bad[row]
    word_segment[words.offsets[row[sound]] + word[sound]] = part[sound]
    return word_segment


def _check_sentences(view: View, heads: Ints, word_segment: Ints) -> None:
    words, sentence = view.shape("word_heads"), view.flat("sentence_index")
    wrong = sentence < 0
    turns = (word_segment[1:] != word_segment[:-1]) & (word_segment[1:] >= 0) & (word_segment[:-1] >= 0)
    wrong[1:] |= (sentence[1:] < sentence[:-1] + turns.astype(np.int32)) & ~words.first[1:]
    view.fail(
        "sentence_index",
        words,
        wrong,
        lambda i: (
            f"word {words.position[i]} is in sentence {sentence[i]}, which does not follow on the word before"
        ),
    )
    view.fail(
        "heads_sentence",
        words,
        sentence[heads] != sentence,
        lambda i: (
            f"word {words.position[i]} has its head, word {heads[i] - words.offsets[words.row[i]]}, "
            "in another sentence"
        ),
    )


def _check_intervals(view: View, heads: Ints, loose: Bools) -> None:
    """Entry numbers are 0 to W-1, and each interval holds exactly its word's descendants.

    If every interval is as long as one plus those of its children, lengths are sizes of subtrees;
    if besides children's intervals lie within their head's, each holds as many descendants as it
    is long, so nothing else. That also rules out cycles.
    """
    words = view.shape("word_heads")
    enter = view.flat("word_dfs_in").astype(np.int64)
    leave = view.flat("word_dfs_out").astype(np.int64)
    count = words.lengths[words.row]
    outside = (enter < 0) | (enter >= count) | loose
    times = np.bincount(
        np.where(outside, len(enter), enter + words.offsets[words.row]), minlength=len(enter) + 1
    )
    child = heads != np.arange(len(heads))
    inner = np.bincount(heads[child], weights=(leave - enter)[child], minlength=len(heads))
    wrong = (leave - enter != 1 + inner.astype(np.int64)) | outside
    wrong |= child & ((enter <= enter[heads]) | (leave > leave[heads]))
    repeated = ~outside
    repeated[repeated] = times[(enter + words.offsets[words.row])[repeated]] != 1
    view.fail(
        "dfs",
        words,
        (wrong | repeated) & ~loose,
        lambda i: (
            f"word {words.position[i]} has interval [{enter[i]}, {leave[i]}), which is not that of its heads"
        ),
    )
