"""Vocabularies from a corpus: what it holds is counted by block, added up by range of keys, and chosen from the counts.

The fine vocabulary is WordPiece as BERT has it; the coarse one has words and phrases, and the pieces that the rest of
the text falls back on.
"""
