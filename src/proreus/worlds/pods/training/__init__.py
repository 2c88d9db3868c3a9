"""How policies that place pods are trained and judged."""
