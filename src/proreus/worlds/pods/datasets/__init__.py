"""Readers and the generator of pod workloads."""
