"""Controllers: how many instances there should be."""
