"""The shared store: an etcd v3 cluster."""
