"""On Ray: another plan is built beside the running one, and takes over at a cut.

May import all of cluster but the rules, cluster.spark and cluster.launch.
"""
