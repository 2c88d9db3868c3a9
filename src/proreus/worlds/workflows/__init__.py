"""Workflows: graphs of tasks on rented machines, one at a time (makespan) or many that arrive (rent, SLA)."""
