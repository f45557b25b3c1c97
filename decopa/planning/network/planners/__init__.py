"""One planner per module: the paper's (aMuSE, aMuSE*, oOP, naive, both optima), our search, and workloads of queries.

May import the problem and the graphs; `decopa.planning.network.planner` chooses among them.
"""
