"""Rules that turn a query into another one with the same meaning; one rule, one file.

May import decopa.errors and the other modules of decopa.query; knows nothing of statistics, plans or runs.
"""
