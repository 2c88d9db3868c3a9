"""What every HTTP server of the project shares: host names, TLS, sockets, and connections with limits."""
