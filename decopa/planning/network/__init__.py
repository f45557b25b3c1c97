"""Plans for evaluation inside a network of event sources (MuSE graphs): `graphs` holds plans as data, `problem` what
planners work on, `planners` the planners; `planner` chooses among them and is what everyone else calls.

May import decopa.query, costmodel and decopa.planning; knows nothing of batches, processes or files.
Which unit of a plain plan lives on which machine is another question; decopa.planning.placement answers that one.
"""
