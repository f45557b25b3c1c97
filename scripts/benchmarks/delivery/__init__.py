"""What a user gets and when: tables, folders and counts, next to DuckDB and Polars, on one core."""
