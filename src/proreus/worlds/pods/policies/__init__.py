"""Rules and learned policies that place pods."""
