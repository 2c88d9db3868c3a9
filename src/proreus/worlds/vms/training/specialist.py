"""What `proreus tune vms` trains: one linear scorer for the user's cluster."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace

from proreus.learning.specialist import Specialist, Starts
from proreus.policies.catalogue import LEARNED
from proreus.worlds.vms.policies.adaptive import AdaptiveVmPolicy
from proreus.worlds.vms.policies.catalogue import make_vm_policy
from proreus.worlds.vms.policies.columns import GAPS as BY_GAPS
from proreus.worlds.vms.policies.columns import LEARNED as BY_WEIGHTS
from proreus.worlds.vms.policies.policy import Below, VmRulePolicy
from proreus.worlds.vms.scenarios import VmScenario
from proreus.worlds.vms.state.servers import capacity_of
from proreus.worlds.vms.training.goal import VmsESConfig, VmsGoal, Weighs, start_of
from proreus.worlds.vms.training.learners import ES
from proreus.worlds.vms.training.training_trace import the_one, training_trace

_FEW_SERVERS = 5
"""The cluster that `VmsESConfig` below is for."""
_LEAST_RUNS = 8


def _goal(scenarios: Sequence[VmScenario], config: VmsESConfig, pool: Executor) -> VmsGoal:
    scenario = the_one(scenarios)
    fitted = replace(
        config,
        starts=_runs(config.starts, scenario),
        validation_starts=_runs(config.validation_starts, scenario),
        limit=scenario.limit,
    )
    return VmsGoal(fitted, training_trace(scenario), scenario.options, pool)


def _runs(count: int, scenario: VmScenario) -> int:
    """Fewer on more servers, where a run has more machines and each more places to be weighed."""
    fewer = count * _FEW_SERVERS // max(scenario.options.first_servers, _FEW_SERVERS)
    return max(fewer, min(count, _LEAST_RUNS))


def starts(scenario: VmScenario) -> Starts:
    """What ships, as it is in this cluster, and the rules that weights can be.

    Where machines are turned away gaps are weighed, and several sets of weights take turns in what ships.
    Each of them may be a start.
    """
    rejecting = scenario.options.full == "reject"
    kind = BY_GAPS if rejecting else BY_WEIGHTS
    weighs: Weighs = "gaps" if rejecting else "places"
    rules = {"first_fit": start_of("wait", weighs), "worst_fit": start_of("reject", weighs)}
    policy = make_vm_policy(LEARNED)
    if isinstance(policy, AdaptiveVmPolicy):
        policy = policy.under(scenario.options.treatment, capacity_of(scenario.options.shapes))
    if not isinstance(policy, VmRulePolicy):
        return rules
    alone = policy.calm is None and policy.roomy is None
    turns = {
        LEARNED if alone else f"{LEARNED}, crowded": Below(policy.kind, policy.weights, 1.0),
        f"{LEARNED}, calm": policy.calm,
        f"{LEARNED}, roomy": policy.roomy,
    }
    shipped = {name: turn.weights for name, turn in turns.items() if turn is not None and turn.kind == kind}
    return {**shipped, **rules}


_CONFIG = VmsESConfig(
    generations=100_000,
    population=16,
    sigma=0.3,
    starts=48,
    validation_starts=240,
    evaluate_every=2,
)
_LEARNER = replace(ES, goal=_goal, configs=(_CONFIG,))
_OF_GAPS = replace(_LEARNER, configs=(replace(_CONFIG, weighs="gaps", sigma=0.5),))

SPECIALIST = Specialist(
    learners={"total_wait": _LEARNER, "placements": _LEARNER, "rejected": _OF_GAPS},
    strongest={"total_wait": "first_fit", "placements": "first_fit", "rejected": "worst_fit"},
    starts=starts,
    cautions=(
        "The draws are of the machines that were given, on the servers that were named. Where yours change "
        "(other sizes, longer lives, more servers), tune again.",
        "Runs of one trace share machines: the intervals say how much depends on where a run begins, not how "
        "another month would differ.",
    ),
)
