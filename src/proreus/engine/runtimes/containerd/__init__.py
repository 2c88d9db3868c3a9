"""Containers by containerd, through the Container Runtime Interface (CRI)."""
