"""The cost model: rates, selectivities, operator costs, sustainable throughput, capacities, statistics.

Imports `decopa.query` and `decopa.language`. Works on numbers and Arrow tables; knows no plan, no actor, no Spark.
"""
