"""Streams of bytes between a client and a container, and what carries them: WebSocket and SPDY."""
