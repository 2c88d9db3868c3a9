"""Workflows and machines as columns: what is legal, what a placement changes; no clock."""
