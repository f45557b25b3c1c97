"""The cost model: rates, selectivities, operator costs, sustainable throughput, capacities, statistics.

Imports `decopa.query` and `decopa.language`. Works on numbers and columns of them; knows no plan, no actor, no Spark.
"""
