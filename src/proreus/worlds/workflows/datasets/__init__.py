"""Readers of recorded workflows, and a generator of graphs that look like them."""
