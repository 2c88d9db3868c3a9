"""Time: workflows arrive, tasks end, and someone decides in between."""
