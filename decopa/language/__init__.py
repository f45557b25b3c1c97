"""Front ends: texts or Python objects become `Query` values; one front end is one sub-package or module.

Imports `decopa.query`. Front ends know nothing of each other, and nothing of plans or runs.
"""
