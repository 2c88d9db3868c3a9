"""How a policy improves: one readable file per algorithm, sharing only pure functions."""
