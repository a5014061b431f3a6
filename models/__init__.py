"""Models: the embedded parsers' weights; trainers follow.

Imports `corpora` alone; never Beam, spaCy, jieba or KenLM.
"""
