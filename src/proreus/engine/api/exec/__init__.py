"""exec, attach and port-forward: streams between a client of the API and a pod."""
