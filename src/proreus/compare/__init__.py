"""Policies x scenarios x seeds -> outcomes, tables with intervals, plots and one HTML report."""
