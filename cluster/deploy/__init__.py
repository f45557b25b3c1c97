"""Actors of a plan on nodes: where each lives, their creation, upkeep and end, and a record of how far they are.

Imports the engine and `cluster.options`. Nothing in here reads events or collects matches: sessions do that.
"""
