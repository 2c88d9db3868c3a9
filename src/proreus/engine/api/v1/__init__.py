"""Plain REST under /v1: schedulers, policies, images, metrics, decisions, events."""
