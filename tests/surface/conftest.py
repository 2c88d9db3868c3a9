"""Commands start in a folder of their own, as in the tests of the command line."""

from __future__ import annotations

from tests.cli.conftest import own_place, proreus

__all__ = ["own_place", "proreus"]
