"""Cost models of other papers, as they are printed, for their own figures."""
