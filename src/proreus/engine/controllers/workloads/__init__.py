"""One agent a workload: as many pods as were asked for, tried again, rolled out, and counted when done."""
