"""Migrations: of pods between windows of requests, of virtual machines in a snapshot."""
