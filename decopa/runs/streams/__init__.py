"""Runs without an end: matches as they happen, and where they go."""
