"""Many queries in one plan: strategies beside each other, against the optimum, in number, and beside other systems."""
