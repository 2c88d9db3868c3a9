"""Policies and scenarios from outside the package, as text of files."""

STRANGER = """
from proreus.policies.protocol import Explanation, Verdict


class First:
    def decide(self, observation):
        return int(observation.action_mask().argmax())


class Telling(First):
    remark = "took the first"

    def explain(self, observation):
        verdicts = (Verdict("there", "", {"first": 1.0}, 1.0), Verdict("elsewhere", "not the first", {}, 0.0))
        return Explanation("Telling", "this", self.decide(observation), verdicts, "It looks no further.")


class Mumbling(First):
    def explain(self, observation):
        return "because"


class Seeded(First):
    def __init__(self, seed):
        self.seed = seed


class Raises:
    def decide(self, observation):
        return 1 // 0


class Illegal:
    def decide(self, observation):
        return -1


class Speechless:
    pass


def make():
    return First()


ready = First()
"""

SCENARIO = """
import json
from proreus.worlds import world

ENTRY = json.loads({entry!r})


class Mine:
    name, world = "mine", {world!r}

    def __init__(self):
        self._like = world({world!r}).scenario(ENTRY, None)
        self.headings = self._like.headings

    def load(self, seed):
        return self._like.load(seed + {ahead})

    def start(self, work, seed):
        return self._like.start(work, seed)
"""
