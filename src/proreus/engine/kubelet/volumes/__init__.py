"""Volumes of pods: made, mounted, refreshed when their objects change, held to their limits."""
