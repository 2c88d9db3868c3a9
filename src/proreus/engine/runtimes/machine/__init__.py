"""Pods on the machine itself: what all real runtimes share, and the backends that differ."""
