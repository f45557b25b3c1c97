"""Plans of many queries: operators packed on the units there are, and what queries share.

May import what `decopa.planning` may; nothing in here knows how a plan is run.
"""
