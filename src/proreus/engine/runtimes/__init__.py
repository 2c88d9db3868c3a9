"""What runs pods on a node."""
