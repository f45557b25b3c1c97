"""Prepared runs carried out: in this process, on Ray, with checkpoints, with a plan that follows its stream.

Imports `decopa.runs.preparation` and `cluster`; Ray loads only when a run needs it. Nothing in here plans a first time.
"""
