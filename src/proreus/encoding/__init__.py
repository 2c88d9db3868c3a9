"""Observation <-> arrays: the features a learned policy sees, computed by the same code everywhere.

Training, serving and the live engine import from here. A checkpoint stores the version of its
encoding and is refused by another.
"""
