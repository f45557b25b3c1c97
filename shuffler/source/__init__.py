"""Where events come from: readers, checks, lateness, dead letters, pacing, live streams.

Imports `shuffler.rows`. Promises events in time order, with ids and types that are there; knows no plan.
"""
