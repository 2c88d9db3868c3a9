"""The rules: kernels that score nodes and pick one.

`columns.py` holds a rule's parameters and memory, `scores.py` the packing rules,
`kube*.py` kube-scheduler, `choose.py` the dispatch, `policy.py` the Python face.
"""
