"""Scale an inference cluster by reinforcement learning, with the classes of the integration document.

    python examples/05_inference_scaling.py

Every ten seconds the state collector looks at the active instances, the agent chooses, the executor starts,
drains and migrates through the scaling manager, and the reward calculator says what it was worth. The agent
begins at a rule, learns from pass to pass how far to be from it, and is kept in a file.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from proreus.worlds.inference.document import RLActionExecutor, TraceRLSimulator, applications_of
from proreus.worlds.inference.document.agent import PPOAgent
from proreus.worlds.inference.flags import InferenceFlags

PASSES, END = 5, 300.0
RL_CONFIG = {
    "action_scale_step": 5,
    "action_mig_step": 3,
    "min_instances_per_pool": 1,
    "max_total_instances": 24,
}


def main() -> None:
    """By hand first, then by an agent that learns from pass to pass."""
    cluster_file = Path(__file__).with_name("cluster.yaml")
    scenario = InferenceFlags(cluster=cluster_file, rate=6.0, seconds=END).chosen("steady")

    trace, lines = scenario.load(seed=0), list[str]()
    cluster, applications = applications_of(scenario, trace, say=lines.append)
    application = applications[0]
    executor = RLActionExecutor(application, RL_CONFIG)
    executor.execute([0.4, -0.2, 0.0])  # two prompt instances more, one token instance fewer
    cluster.advance(60.0)
    application.scaling_manager.notice()
    print("\n".join(lines))
    print(application.scaling_manager.get_status_summary())

    agent = PPOAgent(RL_CONFIG, passes=2)  # an update every two passes
    for number in range(PASSES):
        trace = scenario.load(seed=number)
        cluster, applications = applications_of(scenario, trace, seed=number)
        sim = TraceRLSimulator(
            trace=trace,
            cluster=cluster,
            applications=applications,
            router="no_op",
            arbiter="no_op",
            end_time=END,
            rl_config=RL_CONFIG,
            agent=agent,
        )
        sim.run()
        mean = sum(reward.total for reward in sim.rewards) / len(sim.rewards)
        print(f"pass {number}: {sim.decision_step} decisions, mean reward {mean:+.4f}")

    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "agent.safetensors")
        again = PPOAgent.load(Path(folder) / "agent.safetensors")
    trace = scenario.load(seed=100)
    cluster, applications = applications_of(scenario, trace)
    sim = TraceRLSimulator(trace, cluster, applications, end_time=END, rl_config=RL_CONFIG, agent=again)
    sim.run(learn=False)
    mean = sum(reward.total for reward in sim.rewards) / len(sim.rewards)
    print(f"taken up again: mean reward {mean:+.4f}")


if __name__ == "__main__":
    main()
