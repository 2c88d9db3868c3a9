"""Controllers: each a core without I/O that returns instructions, and a host that carries them out."""
