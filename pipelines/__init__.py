"""Apache Beam pipelines: raw corpora to annotated documents, and those to shards of training rows.

`flow` is the road (plan, annotate, encode, manifest), `engine` and `runners` drive it over blocks,
`annotate` and `encode` are its two stages, `dedup` finds what the first leaves out, `view` looks at
what came out, `cli` is the command.
Imports `kg` and `corpora`; never torch.
"""
