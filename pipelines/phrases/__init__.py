"""Phrases of a corpus (AMBERT's coarse tokens of English): a lexicon from an n-gram model, and greedy segmentation by it."""
