"""Tests of what doors share."""
