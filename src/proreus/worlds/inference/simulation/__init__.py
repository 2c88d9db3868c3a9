"""The event-exact simulator of a disaggregated LLM serving cluster: kernels over plain arrays."""
