"""Runs inside a network, and the statistics that they need."""
