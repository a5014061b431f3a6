"""Vocabularies from a corpus: words and phrases counted by block, WordPiece trained on the counts."""
