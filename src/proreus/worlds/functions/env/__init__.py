"""The Gymnasium environment of the world `functions`."""

from proreus.worlds.functions.env.scheduling import ServerlessSchedulingEnv
from proreus.worlds.functions.simulation.rewards import PaperReward, Reward, reward_named

__all__ = ["PaperReward", "Reward", "ServerlessSchedulingEnv", "reward_named"]
