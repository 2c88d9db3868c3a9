"""Works in somebody else's Kubernetes cluster beside its own parts: extender, judge, rebalancer, scaler."""
