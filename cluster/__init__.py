"""Plans on machines: local and Ray runtimes, deployment, sessions, checkpoints, Spark, measurements.

Imports everything below; `decopa.runs` calls it. Knows processes and files, not the meaning of patterns.
"""
