"""decopa against FlinkCEP, DuckDB and Spark SQL; `scripts/bench_peers` runs it.

`duckdb_worker` and `spark_worker` run in the peers' own environment: what they import must not need decopa.
"""
