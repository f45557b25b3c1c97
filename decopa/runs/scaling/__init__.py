"""Scaling tests, and the calibration of units that they start from."""
