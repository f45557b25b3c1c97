"""What larger clusters would do: counted from plans, and simulated. Nothing is run."""
