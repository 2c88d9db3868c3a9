"""Numba plumbing: how kernels are marked, cached, packed and given random numbers."""
