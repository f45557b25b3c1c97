"""Who gets which rows: partitioners, the routing table of a plan, the topology of its processes, leaves.

Imports `shuffler.rows` and plans. Every process derives the same routing from the same plan; nothing is sent here.
"""
