"""Readers and the generator of windows."""
