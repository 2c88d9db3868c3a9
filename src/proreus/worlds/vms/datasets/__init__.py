"""Readers and the generator of virtual machine traces."""
