"""What a controller sees."""
