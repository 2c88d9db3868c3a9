"""Gymnasium views of the worlds. Importing this package registers their ids.

`gymnasium.make("proreus/Pods-v0", ...)` makes a `PodsEnv`, `"proreus/VirtualMachines-v0"` a `SchedEnv`,
`"proreus/Rebalance-v0"` a `DeployEnv`; `envs.sb3` adapts them to Stable-Baselines3 and is imported by
those who have it. Rewards are pure functions in `envs.rewards`.
"""

from gymnasium.envs.registration import register

PODS = "proreus/Pods-v0"
VIRTUAL_MACHINES = "proreus/VirtualMachines-v0"
REBALANCE = "proreus/Rebalance-v0"

register(id=PODS, entry_point="proreus.worlds.pods.env:PodsEnv")
register(id=VIRTUAL_MACHINES, entry_point="proreus.worlds.vms.env:SchedEnv")
register(id=REBALANCE, entry_point="proreus.worlds.rebalance.windows.env:DeployEnv")
