"""Runs: what happens between a plan and the matches that a user gets, whatever the runtime.

Imports everything below `decopa`; nothing here parses arguments or prints.
"""
