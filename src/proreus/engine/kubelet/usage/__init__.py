"""What nodes, pods and containers use: sampled, kept as short histories, reported."""
