"""A cluster as arrays: what is legal, what a decision changes, what a policy sees. No clock."""
