"""Conditions: the tree of WHERE, its types, what follows from it, and how it becomes code."""
