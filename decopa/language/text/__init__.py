"""The query language of the documentation: its grammar and its parser.

Imports `decopa.query`. The grammar is data; nothing of a query is ever evaluated as Python.
"""
