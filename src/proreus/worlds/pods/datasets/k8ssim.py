"""The input of the k8s simulator behind the PPO service (LINC-BIT K8sSim): node YAML and Volcano jobs.

`catalogue` calls this. Nodes stand under `cluster:` and are Kubernetes Node objects with timing fields;
jobs stand under `jobs:` and are Volcano Jobs whose label `sub-time` is the second of their submission.
As in that simulator, nodes are kept by name, so of two entries with one name the later one counts, and
timing fields that are left out (or below 0.1) take its defaults. A job's minAvailable is checked and not
kept: the model has no gangs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from proreus.data.cursor import Entry
from proreus.data.yaml_tree import read_documents
from proreus.kube.nodes import read_node
from proreus.kube.pods import TemplateReferences, read_pod_spec
from proreus.model.node import Node, Pace
from proreus.model.pod import Pod
from proreus.model.workload import Workload

WORK_PER_EPOCH = 135.0
"""Units of work of one training epoch; the ticked runtime says how many a node does per second."""

MOST_REPLICAS = 1_000_000
"""A larger number of replicas is a slip of the keyboard, not a workload."""

_EPOCHS = re.compile(r"--epochs=(.*)")
_LEFT_OUT = 0.1  # the simulator takes any smaller value for one that is not given
_DEFAULT_START = (2.0, 0.5, 1.0)  # its seconds, extra seconds and spacing where none of the three is given


def read_workload(nodes: Path, jobs: Path) -> Workload:
    """A node file and a job file together."""
    return Workload(f"k8ssim-{jobs.stem}", read_nodes(nodes), read_jobs(jobs), ticked=True)


def read_nodes(path: Path) -> tuple[Node, ...]:
    """The nodes, in file order, each with the pace of its timing."""
    nodes: dict[str, Node] = {}
    for entry in _listed(path, "cluster"):
        node = read_node(entry)
        nodes[node.name] = replace(node, pace=_pace(entry))
    return tuple(nodes.values())


def read_jobs(path: Path) -> tuple[Pod, ...]:
    """The tasks by submission, then in the order of jobs and indices, named as the simulator names them."""
    pods: dict[str, Pod] = {}
    for job in _listed(path, "jobs"):
        for pod in _job_pods(job):
            if len(pods) >= MOST_REPLICAS:
                raise job.require("metadata.name").fail(f"more than {MOST_REPLICAS:,} tasks in all")
            if pod.name in pods:
                raise job.require("metadata.name").fail(f"two tasks are named {pod.name!r}")
            pods[pod.name] = pod
    return tuple(sorted(pods.values(), key=lambda pod: pod.arrival))


def _listed(path: Path, key: str) -> tuple[Entry, ...]:
    document = read_documents(path)[0]
    document.require(key)
    entries = document.children(key)
    if not entries:
        raise document.require(key).fail("the list is empty")
    return entries


def _pace(entry: Entry) -> Pace:
    start_seconds, start_extra, start_spacing = (
        _number(entry, key) for key in ("ctnCreationTime", "ctnCreationExtraTime", "ctnCreationTimeInterval")
    )
    if max(start_seconds, start_extra, start_spacing) < _LEFT_OUT:
        start_seconds, start_extra, start_spacing = _DEFAULT_START
    speed, minimum, threshold = (
        _number(entry, key) for key in ("calculationSpeed", "minimumSpeed", "slowSpeedThreshold")
    )
    return Pace(
        speed=1.0 if speed < _LEFT_OUT else speed,
        start_seconds=start_seconds,
        start_extra=start_extra,
        start_spacing=start_spacing,
        minimum_speed=0.0 if minimum < _LEFT_OUT else minimum,
        slow_threshold=0.0 if threshold < _LEFT_OUT else threshold,
    )


def _number(entry: Entry, key: str) -> float:
    value = entry.find(key)
    return 0.0 if value is None else value.number()


def _job_pods(job: Entry) -> Iterator[Pod]:
    name = job.require("metadata.name").text()
    namespace = job.text_at("metadata.namespace", "default")
    labels = dict(job.entries("metadata.labels"))
    # The simulator knows whole seconds only.
    arrival = float(labels["sub-time"].integer()) if "sub-time" in labels else 0.0
    job.integer_at("spec.minAvailable", 0)
    tasks = job.children("spec.tasks")
    if not tasks:
        raise job.require("spec").fail("a job needs at least one task")
    for task in tasks:
        template = task.require("template")
        spec = read_pod_spec(template, TemplateReferences(namespace=namespace))
        duration = _epochs(template) * WORK_PER_EPOCH
        task_name = task.require("name").text()
        for index in range(task.integer_at("replicas", 1, maximum=MOST_REPLICAS)):
            yield Pod(f"{namespace}-{name}-{task_name}-{index}", spec, arrival, duration, job=name)


def _epochs(template: Entry) -> int:
    """Epochs of training, from `--epochs=K` in the first container's command; 1 where it is not said."""
    container = template.children("spec.containers")[0]
    for word in (*container.children("command"), *container.children("args")):
        match = _EPOCHS.fullmatch(word.text())
        if match is not None:
            if not match[1].isdecimal():
                raise word.fail(f"{word.text()!r} does not state a number of epochs")
            return int(match[1])
    return 1
