"""When and to what a running plan should change: prices of two plans, worth it or not, what past switches teach.

Imports `costmodel` and `decopa.planning`. Pure: counters, statistics and times are arguments; steps are data.
"""
