"""Rebalancing: migrations that break up fragments of a snapshot, or relieve nodes between five-minute
windows."""
