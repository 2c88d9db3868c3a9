"""The one place that states the version; `pyproject.toml` repeats it for the build."""

__version__ = "0.1.0"
