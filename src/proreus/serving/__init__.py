"""Decisions over the wire: the service core, REST, gRPC, model versions, online learning, the client."""
