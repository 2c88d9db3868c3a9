"""The API server: Kubernetes' HTTP API over the registry (`k8s`), exec and port-forward (`exec`), and
plain REST (`v1`).
"""
