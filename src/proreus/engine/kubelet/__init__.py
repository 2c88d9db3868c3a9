"""One ResourceAgent a node: it registers, renews its lease, and runs its pods through a runtime."""
