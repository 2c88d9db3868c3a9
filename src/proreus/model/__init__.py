"""What exists: resources, nodes, pods, workloads, decisions, errors.

Plain frozen dataclasses over the standard library and NumPy. Nothing here
computes a schedule, reads a file or knows a simulator.
"""
