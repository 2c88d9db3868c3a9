"""The HTML report of a comparison: one self-contained page."""
