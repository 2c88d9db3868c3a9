"""How a policy improves: one readable file per algorithm, judged by `compare` on held-out work."""
