"""The cluster as columns: what a workload compiles to, what is legal, and what a placement changes.

Worlds simulate over these arrays and policies score over them, so the rules
of legality exist once. Arrays in, arrays out; the objects of `proreus.model`
stop at `compile.py`.
"""
