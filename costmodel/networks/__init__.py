"""Networks of event sources: who produces what, how that is written down, and what crosses it."""
