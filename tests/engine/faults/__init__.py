"""Faults of a whole cluster: its processes are killed, and what a client was told must stand."""
