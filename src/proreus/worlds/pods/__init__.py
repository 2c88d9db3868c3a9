"""The pods world: pods arrive, queue, run on nodes, leave or are evicted.

`world.py` is the face; the kernels behind it work on `columns.py`.
"""
