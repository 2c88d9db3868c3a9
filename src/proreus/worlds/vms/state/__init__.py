"""Servers with two NUMA nodes as arrays. No clock."""
