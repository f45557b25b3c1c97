"""Experiments of the papers: tables and figures, by a model where it answers them and by runs where it does not."""
