"""Why a query finds what it finds. A pure core over columns; matches are counted by a function that is handed in.

Imports the query, the cost model's conditions on columns and nothing of the engine; `counting` alone runs the engine.
"""
