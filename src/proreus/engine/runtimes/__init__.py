"""Container runtimes: their protocol, the simulated one, and the backends (process, runc, containerd)
behind the kubelet.
"""
