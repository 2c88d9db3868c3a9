"""Images: read from archives that are hostile until read, kept unpacked, and let go under a budget."""
