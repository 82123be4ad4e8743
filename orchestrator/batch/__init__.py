"""Batches: a file says what to do to which repositories; shards do it; the merged result is proved and reported."""
