"""Gymnasium views of the worlds. Importing this package registers their ids.

`gymnasium.make("proreus/Pods-v0", ...)` makes a `PodsEnv`, "proreus/Rebalance-v0" a `DeployEnv`; `envs.sb3`
adapts the environments to Stable-Baselines3 and is imported by those who have it. Rewards are pure functions
in `envs.rewards`.
"""

from gymnasium.envs.registration import register

PODS = "proreus/Pods-v0"
REBALANCE = "proreus/Rebalance-v0"

register(id=PODS, entry_point="proreus.envs.pods:PodsEnv")
register(id=REBALANCE, entry_point="proreus.envs.deploy:DeployEnv")
