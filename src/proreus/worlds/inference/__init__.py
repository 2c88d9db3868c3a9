"""LLM serving clusters: requests, prompt and token pools, and how many instances there should be."""
