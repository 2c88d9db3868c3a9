"""Readers of traces and of measured timings, and the generator."""
