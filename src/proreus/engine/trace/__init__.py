"""What the engine keeps of the life of its pods and nodes, to be replayed and learned from."""
