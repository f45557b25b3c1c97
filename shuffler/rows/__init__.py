"""Columns on the hot path: batches, layouts, string codes, hashes, and Arrow rows turned into them.

Imports `decopa.query` and sub-queries of `decopa.planning`. Knows no files and no messages.
"""
