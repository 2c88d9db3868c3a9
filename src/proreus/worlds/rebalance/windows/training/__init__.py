"""How policies that move pods are trained and judged."""
