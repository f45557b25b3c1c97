"""Spark through RayDP: sessions, traces, statistics, blocks for shufflers, Structured Streaming.

The only room that imports PySpark.
"""
