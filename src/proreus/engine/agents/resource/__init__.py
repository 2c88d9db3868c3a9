"""One agent a node: it registers, shows that it lives, and runs its pods through a runtime."""
