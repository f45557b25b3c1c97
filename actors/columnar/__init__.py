"""Compiled loops over columns: kernels and their cache, stores of partial matches, probing, ordering.

Imports `shuffler.rows` and query kernels. Knows no operator and no unit.
"""
