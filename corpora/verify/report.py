"""The rules, and the report that says where they are broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SHOWN_PER_RULE = 20
"""Problems of one rule that a report keeps; all are counted."""
_EXCERPT = 120

RULES: dict[str, str] = {
    # the folder
    "manifest": "the manifest is there, whole, and of this release",
    "manifest_totals": "a split's totals are the sums over its shards",
    "shard_sequence": "shards of a split are numbered 0 to n-1 of n",
    "missing_shard": "every listed shard exists",
    "extra_shard": "no shard lies in the folder that the manifest does not list",
    "bytes": "shards have the recorded size",
    "sha256": "shards have the recorded hash",
    "unreadable": "shards are whole Arrow IPC files",
    "metadata": "schema metadata is complete, agrees with the manifest and is the same in every shard",
    "schema": "columns are exactly those of the contract",
    "rows": "shards have the recorded number of rows",
    "invalid_arrow": "Arrow's own full validation passes: offsets, UTF-8, dictionary codes",
    "nulls": "no null where the contract has none, nor inside any list",
    "lengths": "columns of one shape have equal lengths in every row",
    "duplicate_id": "ids are unique in their split",
    # annotated documents
    "sentences": "sentences are non-empty, in the text, ordered, and do not overlap",
    "words": "words are non-empty, in the text, ordered, and do not overlap",
    "words_in_sentences": "every word lies inside one sentence",
    "uncovered_text": "every character that is not white space belongs to a word",
    "blank_word": "no word is white space only",
    "one_root": "a sentence with words has exactly one root",
    "pair_annotations": "the second text is annotated exactly where there is one",
    "answers": "answers stand in the second text where their offsets say, or are -1",
    # both stages
    "choices": "choices are the lines of the second text, all of them, in order",
    "impossible": "a question without an answer has no gold answers, and the null span; other documents have some",
    "heads_range": "heads are indices of words of the same row",
    "heads_sentence": "a head lies in its word's sentence",
    "heads_cycle": "following heads ends at a root",
    "label": "labels are indices of the label list, scores are finite numbers",
    "tags": "source tokens are non-empty, in the text, ordered, and do not overlap",
    # shard rows: base
    "max_length": "rows are no longer than max_length",
    "token_ids": "token ids lie in the vocabulary",
    "second_text": "questions, choices and targets have a second text",
    "special_tokens": "[CLS] first, [SEP] after each segment but a target that was cut, no control token elsewhere",
    "token_types": "token types are 0 up to the first [SEP] and 1 after it",
    "offsets": "tokens stand for non-empty spans of their segment, in order; special tokens for none",
    "token_labels": "token labels are -100 or indices of the label list; -100 on all but source tokens' first pieces",
    "token_tags": "every token lies within one source token, and every source token has a token",
    "answer_span": "an answer is tokens of the text, or [CLS] alone",
    "answer_text": "an answer's tokens stand for a gold answer (with `misaligned: widen`, hold one), but for its edges",
    "max_context": "every token of a question's text has most context in exactly one window, other tokens in none",
    "windows": "windows of a question lie side by side, hold all tokens of its text, and say the same of it",
    "choice_lengths": "tokens, words, coarse and tree tokens and branches of the choices add up to those of the row",
    "choice_tokens": "tokens of a choice lie in its line, and there are some",
    "target_tokens": "sources and targets have tokens",
    # shard rows: syntax
    "word_index": "words of tokens count up from 0 without a gap and never span segments; -1 on special tokens",
    "deprels": "relations are indices of the relation list",
    "dfs": "depth-first intervals are exactly those of the heads",
    "sentence_index": "sentence numbers never fall and never span segments",
    # shard rows: coarse
    "coarse_ids": "coarse ids lie in the coarse vocabulary",
    "coarse_special_tokens": "[CLS] and [SEP] stand in coarse tokens as in fine tokens",
    "coarse_token_types": "coarse token types are 0 up to the first [SEP] and 1 after it",
    "coarse_index": "coarse tokens of fine tokens count up from 0 without a gap, special to special",
    "coarse_text": "a coarse token is what the text it covers says, where tokenizer and vocabulary are at hand",
    # shard rows: tree
    "tree_length": "trees are no longer than tree_max_length",
    "tree_ids": "tree ids lie in the vocabulary, and no branch holds a control token",
    "tree_trunk": "the trunk of the tree is the row's tokens, each once, in order",
    "tree_token_types": "trunk tokens keep their type, branch tokens have their anchor's",
    "tree_soft_positions": "soft positions are as defined and below max_positions",
    "tree_branches": "branches are numbered from 1 in order, each in one piece",
    "tree_mention": "mentions rise along the trunk, one per anchor; branch tokens have their anchor's",
    "tree_anchor": "a branch follows its whole anchor or a branch of it; every anchor has a branch",
    "branch_triples": "one triple of the graph per branch",
    "branch_parents": "branches hang from the trunk (0), or from a branch that does, right behind it and its children",
    "graph": "the graph and the tokenizer beside the shards are whole, and those that the rows were made with",
    "branch_tokens": "a branch is exactly its triple's tokens, where the graph and the tokenizer are at hand",
}
"""Every rule by name, with what holds where it is kept."""


@dataclass(frozen=True)
class Problem:
    """One broken rule: the shard's file name ("" for the folder), the row in it (from 0) and its id."""

    shard: str
    row: int | None
    rule: str
    detail: str
    id: str | None = None

    def __str__(self) -> str:
        where = [self.shard] if self.shard else []
        if self.row is not None:
            where.append(f"row {self.row:,}" + ("" if self.id is None else f" ({self.id!r})"))
        return f"{': '.join([' '.join(where)] * bool(where) + [self.rule, self.detail])}"


@dataclass
class Report:
    """What `verify` found. `problems` holds the first of each rule, `rule_counts` counts all."""

    problems: list[Problem] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """Read: `shards`, `rows`, `tokens` (of rows), `words` and `bytes`."""
    rule_counts: dict[str, int] = field(default_factory=dict)
    """Rows (or shards) that break each rule."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    def render(self) -> list[str]:
        """The report as lines of plain text."""
        read = ", ".join(_count(self.counts[k], k) for k in self.counts if self.counts[k] or k == "rows")
        if self.ok:
            return [f"ok: {read}; every rule holds"]
        lines = [str(problem) for problem in self.problems]
        lines.append(f"{_count(sum(self.rule_counts.values()), 'problems')} in {read}:")
        for rule, count in self.rule_counts.items():
            more = f", first {SHOWN_PER_RULE} shown" if count > SHOWN_PER_RULE else ""
            lines.append(f"  {rule}: {count:,}{more} - must hold: {RULES[rule]}")
        return lines


def _count(count: int, nouns: str) -> str:
    """`1 row`, `2 rows`; `nouns` is the plural."""
    return f"{count:,} {nouns.removesuffix('s') if count == 1 else nouns}"


class Findings:
    """Gathers problems: counts all of them, keeps the first of every rule."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._kept: dict[str, list[Problem]] = {}

    def add(self, rule: str, detail: str, shard: str = "") -> None:
        """A problem of a shard, or of the folder."""
        self.add_rows(rule, shard, [(None, None)], lambda _: detail)

    def add_rows(
        self,
        rule: str,
        shard: str,
        rows: Sequence[tuple[int | None, str | None]],
        detail: Callable[[int], str],
        count: int | None = None,
    ) -> None:
        """`count` rows break `rule`; `rows` holds number and id of at least the first ones."""
        if rule not in RULES:
            raise KeyError(f"no rule {rule!r}")
        self.counts[rule] += len(rows) if count is None else count
        kept = self._kept.setdefault(rule, [])
        for index, (row, identity) in enumerate(rows[: SHOWN_PER_RULE - len(kept)]):
            kept.append(Problem(shard, row, rule, detail(index), excerpt(identity)))

    def report(self, counts: dict[str, int]) -> Report:
        """The report, rules in the order of `RULES`."""
        rules = [rule for rule in RULES if rule in self._kept]
        problems = [problem for rule in rules for problem in self._kept[rule]]
        return Report(problems, counts, {rule: self.counts[rule] for rule in rules})


def excerpt(text: str | None) -> str | None:
    """`text`, cut to what a line of a report can hold."""
    if text is None or len(text) <= _EXCERPT:
        return text
    return text[:_EXCERPT] + "..."
