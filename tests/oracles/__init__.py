"""Slow, obvious implementations and hand-worked cases that the fast code is tested against."""
