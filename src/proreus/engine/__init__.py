"""Decisions made real: a store, an API in the language of Kubernetes, agents, and runtimes that run pods."""
