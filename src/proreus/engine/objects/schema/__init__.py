"""The fields of each kind, and whether an object has the structure of its kind."""
