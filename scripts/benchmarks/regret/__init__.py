"""Regret: what chosen plans take, over what the best plan found takes; both are run."""
