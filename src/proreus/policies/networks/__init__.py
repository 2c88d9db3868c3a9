"""Networks over rows, whatever the world that made the rows."""
