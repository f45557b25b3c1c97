"""Shared trees: what patterns compute together, what that costs, and searches for the cheapest (MCEP, SIGMOD 2019).

Imports what `decopa.planning` may and nothing of the rest of `workload`: trees become plans outside of this room.
"""
