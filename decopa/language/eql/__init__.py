"""EQL, the query language of the NEXT CEP paper (3.5): SELECT ... FROM pattern WHERE ..., as the same `Query`.

Shares the rules of conditions with the native language; imports `decopa.query` and its neighbours in `decopa.language`.
"""
