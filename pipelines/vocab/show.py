"""What the console says of a vocabulary that was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from corpora import files
from pipelines.view.legible import legible

_SAID = {
    "tokens_per_word": "tokens per word (a Chinese character is one)",
    "unknown_words": "words that are [UNK]",
    "characters_in_whole_tokens": "characters in words and phrases of the vocabulary",
    "phrases_to_words": "phrases that fall to their words",
    "words_to_pieces": "words that fall to pieces",
    "words_unknown": "words that are [UNK]",
}
_BEST = 5


def show(
    console: Console, side: str, folder: str, told: Mapping[str, Any], size: int, *, brief: bool = False
) -> None:
    """How many entries there are, how they cover the corpus, and what just found no room.

    Args:
        folder: where it and its report lie.
        told: the side's part of the report.
        size: the most entries that it could have.
    """
    entries, occurrences = told["entries"], told["occurrences"]
    few = f" (at most {size:,}; the corpus gives no more)" if entries < size else ""
    path = legible(files.join(folder, told["file"]))
    console.print(Text(f"vocab, {side}: {entries:,} entries in {path}{few}"), soft_wrap=True)
    if not occurrences:
        splits = ", ".join(told["splits"])
        console.print(Text(f"there are no words in what was counted ({splits})", "yellow"))
        return
    if "counts_scaled_by" in told:
        console.print(Text(f"counts were scaled by {told['counts_scaled_by']:.3g} to be learnt from"))
    if told.get("pieces_without_room"):
        console.print(
            Text(
                f"{told['pieces_without_room']:,} pieces found no room (vocab.coarse.size, vocab.coarse.pieces): words "
                "that need them are [UNK]",
                "yellow",
            ),
            soft_wrap=True,
        )
    if left := told.get("characters_of_branches_left_out"):
        why = f"{left:,} characters of branches found no room (vocab.fine.alphabet, vocab.fine.size): they are [UNK]"
        console.print(Text(why, "yellow"), soft_wrap=True)
    for warning in _about_phrases(told):
        console.print(Text(warning, "yellow"), soft_wrap=True)
    if brief:
        return
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name in ("pieces", "words", "phrases"):
        if side == "coarse" and told.get(name):
            table.add_row(name, f"{told[name]:,}")
    for name, value in told["coverage"].items():
        table.add_row(_SAID[name], f"{value:.2f}" if name == "tokens_per_word" else f"{value:.2%}")
    console.print(table)
    if fell := told.get("fell_out"):
        some = ", ".join(f"{legible(item['text'])} ({item['count']:,})" for item in fell[:_BEST])
        console.print(Text(f"no room for, most frequent first: {some}"), soft_wrap=True)


def _about_phrases(told: Mapping[str, Any]) -> Iterator[str]:
    """What a lexicon did not give."""
    phrases, never = told.get("lexicon", 0), told.get("never_seen", 0)
    if 2 * never > phrases:
        yield (
            f"{never:,} of the {phrases:,} phrases of the lexicon never stand in the text: is it of another corpus, or "
            "does one of the two keep upper case? (phrases.lowercase, encode.lowercase)"
        )
    if phrases and not told["phrases"]:
        yield (
            "no phrase is in the vocabulary: none occurs as often as vocab.coarse.min_count, or vocab.coarse.size has "
            "no room. Change these, or leave encode.coarse.phrases out: treegraft preprocess takes no lexicon of "
            "which the vocabulary has nothing"
        )
