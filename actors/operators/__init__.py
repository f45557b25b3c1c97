"""Matching rules, one module each: joins, Kleene closure, negation.

Imports `actors.columnar`. No Ray, no clock, no network: an operator is a function of its inputs.
"""
