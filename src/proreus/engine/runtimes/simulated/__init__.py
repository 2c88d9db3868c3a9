"""Nodes that only pretend: pods run for a drawn time, use drawn resources, and end as drawn."""
