"""What units hold, as bytes: codec, file format, and migration to other numbers of units.

Imports operators and groups. Every format has a version; unknown versions are refused.
"""
