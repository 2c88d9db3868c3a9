"""Actors over watch and store: resource, scheduling and task agents, each around a core without I/O."""
