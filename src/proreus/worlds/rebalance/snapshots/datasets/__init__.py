"""Readers and the generator of snapshots."""
