"""Treebanks written by hand."""

from __future__ import annotations


def conllu(*sentences: str) -> str:
    """`form/UPOS/head/label` words, head from 1, 0 for the root."""
    blocks = []
    for sentence in sentences:
        words = [word.split("/") for word in sentence.split()]
        blocks.append(f"# text = {' '.join(word[0] for word in words)}")
        blocks += [f"{i}\t{w}\t_\t{p}\t_\t_\t{h}\t{d}\t_\t_" for i, (w, p, h, d) in enumerate(words, 1)]
        blocks.append("")
    return "\n".join(blocks) + "\n"
