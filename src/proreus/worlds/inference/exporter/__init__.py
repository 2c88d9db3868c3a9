"""A fake of vLLM's metrics: a trace is played through the simulator, and every replica says what it does.

Names, labels and buckets are those of real servers. It takes a number of replicas as a Deployment does: those
it lacks appear when they have started, those it has too many of drain. `python -m
proreus.worlds.inference.exporter --help`.
"""
