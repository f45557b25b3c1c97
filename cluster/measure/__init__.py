"""Measurements on Ray: calibration of units, and the rates that a deployment sustains.

Imports the runtime. What the figures mean is decided in `costmodel`.
"""
