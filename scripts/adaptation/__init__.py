"""The experiment of the thesis on adaptivity, on our runtime: see `scripts/adaptivity`."""
