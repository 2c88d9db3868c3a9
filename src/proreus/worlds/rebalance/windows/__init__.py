"""Pods that serve requests, moved between windows of five minutes."""
