"""The DecoPa paper's tables and figures, as far as a model can answer them, from one command."""
