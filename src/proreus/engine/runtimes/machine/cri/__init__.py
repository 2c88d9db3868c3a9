"""Kubernetes' Container Runtime Interface: the few messages that are used, and calls of them."""
