"""Decisions about clusters that a client describes by name."""
