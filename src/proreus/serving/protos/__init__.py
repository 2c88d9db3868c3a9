"""Message types of the gRPC services, generated from the .proto files here by `make protos`."""
