"""Pods on shared nodes that are moved between five-minute windows of requests."""
