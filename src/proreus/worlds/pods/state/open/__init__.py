"""A cluster that lives: nodes, pods and budgets come and go in place."""
