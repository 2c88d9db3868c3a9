"""What happens in a cluster, as a stream for whoever looks on: the status page follows it."""
