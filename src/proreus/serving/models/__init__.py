"""Versions of the model on disk, and the one that is live."""
