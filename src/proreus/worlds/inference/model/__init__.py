"""The nouns: language models, GPUs, kinds of instances, clusters, requests."""
