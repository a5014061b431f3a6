"""What comes with the package, trained anew: embedded parsers, small Stanza models, the samples' vocabularies.

Run with `make parsers`, `make stanza`, and `python -m pipelines.training.sample_vocab`. No pipeline imports this room.
"""
