"""Drift: from counters of a run to rates with errors, deviations from a reference, alarms; and the thesis' inequality.

Imports `costmodel` and what that imports. Pure: times are arguments, nothing is measured here.
"""
