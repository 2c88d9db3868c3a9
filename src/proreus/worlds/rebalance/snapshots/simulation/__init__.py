"""A snapshot that changes migration by migration."""
