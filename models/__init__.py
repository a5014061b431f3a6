"""Models: from shards to tensors (`stream`), who sees whom (`masks`), the systems on one encoder, embedded parsers.

Imports `corpora` alone; never Beam, spaCy, jieba or KenLM. `parsers` is data; all else here needs torch.
"""
