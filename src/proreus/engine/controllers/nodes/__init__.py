"""The life of nodes as the cluster sees it: who is silent, what that forbids, and which pods must go."""
