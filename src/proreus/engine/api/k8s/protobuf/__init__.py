"""Kubernetes' protobuf, read: Go clients write so. Answers are JSON, which they read, too."""
