"""The command line: one module for each command holds its arguments and its action; those that run queries have a room.

Imports everything, but loads heavy modules inside the actions, so that --help answers at once.
"""
