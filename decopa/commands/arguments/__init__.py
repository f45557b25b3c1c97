"""Arguments of the command line and what they mean: parsed here, for all commands."""
