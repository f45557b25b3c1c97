"""Evaluation: processing units, groups of them, sinks, and their shells on Ray.

Rooms import in the order columnar, operators, state. Knows a plan as data, not how it was found.
"""
