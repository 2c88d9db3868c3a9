"""The names of the document on scaling an inference cluster by reinforcement learning, over this simulator.

    cluster, applications = applications_of(scenario, trace, seed=0)
    sim = TraceRLSimulator(trace=trace, cluster=cluster, applications=applications, end_time=600.0)
    sim.run()

What they do is what the document says; what its implementation got wrong is not repeated: all three parts of
an action are applied, starting and draining instances neither count nor get work, utilisation is the share of
time with a batch, and an interval in which nothing came or ended is one like any other.
"""

from __future__ import annotations

from proreus.worlds.inference.document.action import RLActionExecutor
from proreus.worlds.inference.document.application import (
    Application,
    Scheduler,
    StartStateManager,
    applications_of,
)
from proreus.worlds.inference.document.config import RLConfig
from proreus.worlds.inference.document.reward import RLRewardCalculator
from proreus.worlds.inference.document.simulator import TraceRLSimulator
from proreus.worlds.inference.document.state import RLStateCollector
from proreus.worlds.inference.simulation.scaling_manager import Instance, ScalingManager, Server

__all__ = [
    "Application",
    "Instance",
    "RLActionExecutor",
    "RLConfig",
    "RLRewardCalculator",
    "RLStateCollector",
    "ScalingManager",
    "Scheduler",
    "Server",
    "StartStateManager",
    "TraceRLSimulator",
    "applications_of",
]
