"""What goes in, and what comes out.

Raw corpora are read into *records* (`corpora.records`, `corpora.readers`), one Arrow table
per block. Both Arrow contracts, the annotated document and the shard row, are code in
`corpora.schema`; `corpora.shards` writes and reads them, `corpora.manifest` is the commit
mark beside them, `corpora.verify` proves a dataset right. `corpora.files` is the only place
that knows where bytes live (a local path or any Beam filesystem URI).

This room imports none of the others.
"""
