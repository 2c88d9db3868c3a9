"""Keeping house: dependents without owners, deleted namespaces and old events go; budgets are counted."""
