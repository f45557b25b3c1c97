"""Spark through RayDP: sessions, traces, statistics, blocks for shufflers, micro-batches (`streams`).

The only room that imports PySpark.
"""
