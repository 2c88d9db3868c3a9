"""Tests that are long by nature and may wait for the night: each has a shorter brother that runs every time.

A name is the beginning of a test's id, below `tests/`. A name that no test has fails (`test_nightly.py`):
what is renamed or removed does not stay here.
"""

from __future__ import annotations

from collections.abc import Iterable

NIGHTLY = (
    # Twenty kills of a scheduler and ten of an API server with a thousand nodes: a few of each stay.
    "kube/real/test_scheduler.py::test_twenty_leaders_and_ten_servers_are_killed_at_a_thousand_nodes",
    # A large cluster before a browser takes a minute; the small one stays.
    "web/test_at_scale.py::test_nodes_are_painted_soon_and_updates_are_cheap[large]",
    # Ray takes ten seconds to begin, and half a minute to notice that somebody died. pods/test_distributed
    # stays.
    "cli/test_ray.py::",
    # Thousands of steps of learning: the laws of each learner (conformance, learning) stay.
    "worlds/vms/test_networks.py::test_ddqn_beats_random",
    "worlds/vms/test_networks.py::test_ppo_beats_random_and_its_weights_change",
    "worlds/pods/test_vector_ppo.py::test_it_solves_a_trivial_world_from_logged_decisions[vector-mlp]",
    "conformance/test_training.py::test_a_run_that_is_done_can_be_made_longer[inference-",
    "conformance/test_training.py::test_a_run_that_is_done_can_be_made_longer[functions-ppo]",
    "conformance/test_training.py::test_a_run_that_is_done_can_be_made_longer[workflows-ppo]",
    # Ends of trainings: the disk that fills, and one algorithm of each kind, stay.
    "cli/test_train_failures.py::test_an_interrupted_run_goes_on_to_the_same_end[ddqn]",
    "cli/test_train_failures.py::test_a_disk_that_is_full_at_any_moment_loses_nothing",
    "cli/test_train_vms.py::test_an_interrupted_run_goes_on_to_the_same_end",
    # Rounds of kills over every store and every runtime: one of each sort stays.
    "engine/faults/test_kills.py::test_nothing_acknowledged_is_lost_when_the_engine_is_killed[etcd-1]",
    "engine/faults/test_clock.py::test_a_clock_that_jumps_evicts_nobody_and_nobody_waits_for_it[etcd]",
    "engine/faults/test_members.py::test_of_two_schedulers_the_one_that_leads_is_killed",
    "engine/faults/test_real_containers.py::test_nothing_runs_twice_or_is_left_when_everything_is_killed[process-2]",
    "engine/faults/test_real_containers.py::test_nothing_runs_twice_or_is_left_when_everything_is_killed[containerd-3]",
    "engine/faults/test_real_containers.py::test_a_lack_of_memory_and_of_room_on_the_disk_are_told[process]",
    "cli/cluster/test_losses.py::test_a_store_that_lost_its_cluster_is_refused_and_pods_run_on[_empty_without_mark]",
    "cli/cluster/test_losses.py::test_a_store_that_lost_its_cluster_is_refused_and_pods_run_on[_gone]",
    "serving/test_kill.py::test_every_acknowledged_step_survives_and_the_served_version_is_complete[sqlite]",
    "serving/attacks/test_beside.py::test_both_serve_the_same_one_learns_and_the_other_takes_over[doors1]",
    "serving/test_strangers.py::test_answers_come_and_it_ends[HoldsTheLock",
    "serving/test_strangers.py::test_answers_come_and_it_ends[Exits",
    # The same scene over every rule: two stay, of either family.
    *(
        f"serving/scaler/test_freshness.py::test_a_service_frozen_at_low_load_keeps_its_replicas[{rule}]"
        for rule in ("apa", "chiron", "dynamo", "kpa", "threshold", "wva")
    ),
    "serving/scaler/test_ending.py::test_many_objects_that_are_looked_at_all_the_time[1.4]",
    "serving/scaler/test_ending.py::test_many_objects_that_are_looked_at_all_the_time[1.8]",
    # Memory over many thousands of changes: the one with most watchers stays.
    "engine/api/test_feed_memory.py::test_changes_of_long_objects_take_little_memory[past-60-6]",
    "engine/api/test_feed_memory.py::test_changes_of_long_objects_take_little_memory[reads-60-30]",
    # Whole benchmarks, whole images, every recording: a small one of each stays.
    "bench/test_bench_live.py::test_the_whole_benchmark",
    "engine/runtimes/test_image_builder.py::test_the_machines_python_is_made_when_it_is_wanted[containerd]",
    "golden/test_golden_kube_recorded.py::test_every_decision_is_the_recorded_one[1.36]",
    "data/test_catalogue.py::test_every_real_dataset_loads",
)


def is_nightly(test: str) -> bool:
    """Whether a test, by its id, may wait."""
    return test.removeprefix("tests/").startswith(NIGHTLY)


def unknown(tests: Iterable[str]) -> list[str]:
    """Names of the list that no test has."""
    known = [test.removeprefix("tests/") for test in tests]
    return [name for name in NIGHTLY if not any(test.startswith(name) for test in known)]
