"""How requests come in: REST and gRPC, thin over the core."""
