"""Raw files of publishers (Google's cluster trace, Citi Bike) turned into traces, on Spark.

Imports `cluster.spark`. Each publisher has a module that names its columns, checks rows and counts what it leaves out.
"""
