"""From a spec and queries to a run that can start: events opened, statistics measured, a plan chosen.

Imports planning, sources and the values of `decopa.runs`, never `runtimes`; Ray and Spark load only where they read
the trace. `prepare` alone applies defaults and refuses.
"""
