"""Lanes as tensors, whatever the world: single entries, draws, graphs, rollouts. Imports torch."""
