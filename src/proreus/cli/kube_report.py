"""`proreus kube report FOLDER`: what another policy would have saved, in dollars."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli.arguments import CommonArguments, parse, prepare
from proreus.cli.compare import Destination, process_count, run_comparison, split_names, write_comparison
from proreus.cli.output import Output, new_console, write_json
from proreus.model.errors import UsageError
from proreus.model.files import check_folder, write_atomically

_DESCRIPTION = """Plays a cluster's own pods again by several policies and tells what each would have cost.

FOLDER is what proreus kube import wrote.

Example: proreus kube report runs/week --policies kube,best_fit,learned"""


@dataclass(frozen=True)
class ReportArguments:
    """Flags of `proreus kube report`."""

    policies: str = "kube,best_fit,learned"
    """Who is played, separated by commas; `kube`, against which savings are counted, always is."""
    asked: str = "learned"
    """Whose saving the first sentence tells."""
    draws: int = 5
    """Other weeks of the same kind, for an interval; 0: none."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where the reports go: saved.md, and that of compare; by default FOLDER/report."""
    processes: int = 0
    """Worker processes; 0: one per core."""
    common: CommonArguments = field(default_factory=CommonArguments)

    def __post_init__(self) -> None:
        if not 0 <= self.draws <= 1000:
            raise UsageError(f"--draws {self.draws} is outside 0..1000")


def run(words: Sequence[str]) -> int:
    """Compare, and tell what it comes to."""
    if not words or words[0].startswith("-"):
        parse(ReportArguments, "proreus kube report FOLDER", words, _DESCRIPTION)
        raise UsageError("name the folder that proreus kube import wrote")
    folder = Path(words[0])
    arguments = parse(ReportArguments, "proreus kube report FOLDER", words[1:], _DESCRIPTION)
    prepare(arguments.common)
    from proreus.compare.comparison import CompareRequest
    from proreus.kubeagents.judge.recorded_cluster import RecordedCluster
    from proreus.kubeagents.judge.savings import BASELINE, as_json, headline, page, savings
    from proreus.kubeagents.judge.scenario_folder import read_about
    from proreus.worlds.pods.scenarios import PodScenario

    about = read_about(folder)
    policies = tuple(dict.fromkeys((BASELINE, *split_names(arguments.policies))))
    if arguments.asked not in policies:
        policies = (*policies, arguments.asked)
    request = CompareRequest(
        scenarios=(PodScenario(RecordedCluster(folder.resolve())),),
        policies=policies,
        seeds=tuple(range(arguments.draws + 1)),
        processes=process_count(arguments.processes),
    )
    console = new_console(arguments.common)
    console.print(about.told, soft_wrap=True)
    out = arguments.out or folder / "report"
    command = shlex.join(("proreus", "kube", "report", *words))
    quiet = Output(quiet=arguments.common.quiet)
    check_folder(out)
    comparison = run_comparison(request, console)
    found = savings(comparison.results)
    write_comparison(comparison, Destination(out, quiet, command), console)
    write_atomically(out / "saved.md", page(found, about, arguments.asked).encode())
    console.print(headline(found, about, arguments.asked), soft_wrap=True, highlight=False)
    console.print(f"report: {out / 'saved.md'}", soft_wrap=True)
    write_json(arguments.common, as_json(found, about, arguments.asked))
    return 0
