"""What networks see of a decision."""
