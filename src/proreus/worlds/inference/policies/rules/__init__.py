"""Controllers that need no training: how many instances a pool should have, from what is seen of it.

A file for each family, named after where it comes from; `controller.py` is what they share, `work.py` how
load is measured in instances.
"""
