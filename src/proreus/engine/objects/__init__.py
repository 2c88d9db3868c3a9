"""Kubernetes objects over the store: kinds, defaults, validation, patches, and their registry."""
