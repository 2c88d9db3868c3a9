"""Clients of the service: REST, gRPC, and a policy that asks it."""
