"""The door: Kubernetes' HTTP API over the registry, and the plain REST beside it."""
