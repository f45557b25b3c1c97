"""Plans: sub-queries, splits, units, and the strategies that choose among them.

Imports `decopa.query`, `decopa.language` and `costmodel`. Knows nothing of batches, actors or Ray; a plan is data.
"""
