"""Who does the work: threads, processes, Ray."""
