"""How a policy improves: batched worlds, and one readable file per algorithm."""
