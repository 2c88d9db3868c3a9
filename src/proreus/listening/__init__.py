"""What every HTTP door of the project shares: names, clients, sockets, and connections that are bounded."""
