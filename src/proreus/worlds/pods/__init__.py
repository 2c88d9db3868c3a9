"""The world of pods: they arrive, queue, run on nodes, leave or are evicted."""
