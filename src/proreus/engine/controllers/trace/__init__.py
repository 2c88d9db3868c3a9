"""Records what becomes of pods and nodes."""
