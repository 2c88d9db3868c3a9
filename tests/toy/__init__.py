"""A world outside the package: jobs for two servers. It registers one value and has every verb."""

from __future__ import annotations

from proreus.worlds import Registered

TOY = Registered("tests.toy.world:WORLD", lanes={"proreus/Toy-v0": "tests.toy.training:episodes"})
