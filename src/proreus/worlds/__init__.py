"""One folder a world; the registry of all of them."""
