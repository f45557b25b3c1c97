"""Network plans at work: all nodes in one process, or spread over Ray.

May import actors, shuffler, decopa.planning and the rest of cluster; Ray only in the modules whose names say so.
"""
