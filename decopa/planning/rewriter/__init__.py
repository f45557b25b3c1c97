"""Equivalent expressions of the NEXT paper (4.3), chosen by its cost model; each operator one file.

May import costmodel and decopa.query; knows nothing of plans. `chain_split` chooses by the engine's costs instead.
"""
