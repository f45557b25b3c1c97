"""Single-core benchmarks of the engine against a bare Numba loop and DuckDB."""
