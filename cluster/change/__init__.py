"""A running plan becomes another: history of the stream, the cut between two plans, rules that come and go.

Imports the local runtime. Everything runs in one process, without Ray.
"""
