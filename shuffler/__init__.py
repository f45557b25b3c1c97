"""From a trace to the inputs of operators: rows, sources, routing, and the exchange of messages.

Rooms import in that order. Knows plans as data; evaluates no pattern.
"""
