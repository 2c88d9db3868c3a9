"""Rules and learned policies of the world `functions`."""
