"""The ways in which a client states a change: JSON patch, merge patch, strategic merge patch, apply."""
