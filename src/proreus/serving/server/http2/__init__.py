"""As much of HTTP/2 as a gRPC server needs: frames, header compression, connections with limits."""
