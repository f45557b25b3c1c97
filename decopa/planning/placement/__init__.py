"""On which node each operator runs (NEXT paper, 4.4 and 5): what a placement costs, and how to find a cheap one.

Pure: operators, rates and nodes in, a mapping out. May import costmodel and decopa.planning.rewriter.
"""
