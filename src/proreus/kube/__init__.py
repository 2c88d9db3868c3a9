"""Kubernetes objects to and from the model: simulator, service and engine read them alike."""
