"""A snapshot of virtual machines: fewer fragments by few migrations."""
