"""Synthetic traces for examples, tests and benchmarks; every one is a function of its seed.

Imports `decopa.query` and Arrow. Real traces come from `cluster.spark.publishers`.
"""
