"""Benchmarks: runtimes, live runs, changes, checkpoints, memory, sources; rooms for what takes several modules."""
