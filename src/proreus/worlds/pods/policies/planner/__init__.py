"""A policy that plans: it plays futures with the world's own kernels and learns what is worth leaving."""
