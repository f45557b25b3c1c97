"""The experiments of the MuSE paper, with our planners beside its own."""
