"""Time, events and measures of the world of virtual machines."""
