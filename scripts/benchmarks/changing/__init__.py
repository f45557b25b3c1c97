"""What a change of plan costs a paced stream on Ray, in several ways to change: see `scripts/bench_change --ray`."""
