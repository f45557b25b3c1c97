"""A running plan becomes another: history of the stream, the cut between two plans, the loop that asks for better ones.

Imports the local runtime. What stands here runs in one process, without Ray; `deployed` and `rules` import it.
"""
