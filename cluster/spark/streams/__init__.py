"""Structured Streaming: micro-batches of Spark through a plan on Ray, and the file that says how far they came.

May import the rest of `cluster`; not `decopa.runs` or anything above it.
"""
