"""Network plans as data: vertices and covers, validity, normal forms, prices, loads, and the operators of a vertex.

May import decopa.query, costmodel and decopa.planning; does not know how a plan was found.
"""
