"""Rules and learned policies that move pods between windows of requests."""
