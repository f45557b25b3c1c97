"""Processes inside a network of event sources."""
