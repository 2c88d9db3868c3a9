"""Disruption budgets, counted as Kubernetes' disruption controller counts them."""
