"""Phrases of a corpus (AMBERT's coarse tokens of English): a lexicon from an n-gram model, and segmentation by it."""
