"""Windows served one after the other, and what they cost."""
