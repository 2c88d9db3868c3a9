"""Columns of a run, what is legal, what a policy sees; no clock."""
