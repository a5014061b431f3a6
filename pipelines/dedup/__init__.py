"""Exact and near duplicates: found on any Beam runner, dropped before annotation.

`sign` hashes the documents of each block (`folding`, `shingles`, `minhash`, `signer`) and writes sorted runs of keys;
`match` gathers a range of keys from all `runs`, and compares documents of equal keys (`buckets`, `signed`, `sketch`);
`resolve` makes clusters of the pairs (`clusters`), `report` writes what goes, `result` tells it to the stage that
annotates. `flow` is the road through all of it, `config` its section of a config.
"""
