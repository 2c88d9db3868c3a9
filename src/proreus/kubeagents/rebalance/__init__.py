"""Evictions that make a cluster cheaper or less fragmented: planned by a search, carried out with care."""
