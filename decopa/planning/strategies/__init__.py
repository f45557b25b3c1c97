"""The strategies: each makes a plan out of a query, statistics and a capacity."""
