"""What every planner works on: a query in a network as numbers, combinations of projections, and priced sub-plans.

May import the graphs, into which `build` turns sub-plans; knows no planner.
"""
