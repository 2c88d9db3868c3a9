"""Training of the fixed-vector models."""
