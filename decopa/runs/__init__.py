"""Runs: a run is a value, prepared in one place and carried out by one of the runtimes.

Imports planning, the engine and `cluster`; Ray and Spark load only when a run needs them. Prints nothing. What a run
is and what it returns lies here; rooms hold how it is prepared, carried out, kept going on a stream, and explained.
"""
