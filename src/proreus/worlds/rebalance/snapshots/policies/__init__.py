"""Rules, search and the exact solver for snapshots."""
