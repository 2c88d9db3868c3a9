"""Rules and learned scores of moves."""
