"""What a query is: pattern, conditions, window, schema, and how conditions become code.

Imports `decopa.errors` and nothing else of the project. Knows no text syntax, no statistics, no plan.
"""
