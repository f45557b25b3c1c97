"""Checkpoints: coordination, storage, published output, recovery.

Imports the runtime. A checkpoint is complete or absent; nothing in it is unpickled.
"""
