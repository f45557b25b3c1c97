"""The commands that run queries, `run`, `resume` and `rules`, and what they do on streams and before a run.

Imports `decopa.commands.arguments` and `terminal`, and no other command; heavy modules load inside the actions.
"""
