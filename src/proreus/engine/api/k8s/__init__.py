"""Kubernetes' own API: discovery, objects, watches, subresources, OpenAPI."""
