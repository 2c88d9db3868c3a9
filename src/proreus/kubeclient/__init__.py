"""Asks somebody else's Kubernetes API: configuration, HTTP, lists and watches, leases. Knows no world."""
