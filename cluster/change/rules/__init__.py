"""Rules that come and go: their versions and lives, the folder that asks for changes, runs with checkpoints.

May import cluster.change.deployed; versions, notes and the folder need no Ray.
"""
