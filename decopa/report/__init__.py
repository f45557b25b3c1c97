"""What people look at: trees, tables, drawings and pages about plans, runs and scaling tests.

Imports everything below the command line. Computes nothing that a run or a plan has not computed already.
"""
