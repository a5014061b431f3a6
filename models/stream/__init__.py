"""Rows from shards to a model's batches, in an order that is a pure function of (seed, epoch, position)."""
