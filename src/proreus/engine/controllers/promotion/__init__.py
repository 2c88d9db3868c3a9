"""Takes a candidate from the shadow to deciding for all, or back, by what it does on held-out work."""
