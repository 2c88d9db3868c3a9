"""Containers by runc."""
