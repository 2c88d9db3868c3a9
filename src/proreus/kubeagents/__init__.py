"""At work in somebody else's Kubernetes cluster: scheduler, extender, judge, rebalancer, scaler."""
