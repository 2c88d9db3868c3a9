"""What each kind asks of its objects: defaults, what is wrong with them, what may not change."""
