"""Workflows for those who have no recordings: graphs with the shapes of ten published families.

Stages, how they are joined, and typical runtimes and file sizes follow what WfCommons and Pegasus publish
about each family; widths and every single figure are drawn. Nothing of a recorded file is in here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from proreus.model.errors import unknown_name
from proreus.worlds.workflows.model import Workflow, workflow_of

_MB = 1e6
_SPREAD = 0.35
"""Of runtimes and sizes within a stage: the sigma of a lognormal."""


class _Graph:
    """Grows task by task; runtimes and sizes vary around what is typical of their stage."""

    def __init__(self, draw: np.random.Generator) -> None:
        self.draw = draw
        self.tasks: list[str] = []
        self.runtime: list[float] = []
        self.edges: dict[tuple[int, int], float] = {}
        self._output: list[float] = []

    def add(self, stage: str, seconds: float, megabytes: float, parents: Sequence[int] = ()) -> int:
        """A task of that stage, behind its parents, which hand over what they wrote."""
        task = len(self.tasks)
        self.tasks.append(f"{stage}_{task:05d}")
        self.runtime.append(seconds * self._vary())
        self._output.append(megabytes * _MB * self._vary())
        for parent in parents:
            self.edges[parent, task] = self._output[parent]
        return task

    def fan(
        self, stage: str, typical: tuple[float, float], width: int, parents: Sequence[int] = ()
    ) -> list[int]:
        """So many tasks with the same parents; typical = (seconds, megabytes written)."""
        return [self.add(stage, *typical, parents) for _ in range(width)]

    def after_each(self, stage: str, typical: tuple[float, float], before: Sequence[int]) -> list[int]:
        """One task behind each."""
        return [self.add(stage, *typical, [parent]) for parent in before]

    def _vary(self) -> float:
        return float(self.draw.lognormal(-(_SPREAD**2) / 2, _SPREAD))


def _blast(graph: _Graph, width: int) -> None:
    split = graph.add("split_fasta", 2.0, 1.0)
    searches = graph.fan("blastall", (_log_between(graph, 10.0, 1_500.0), 0.05), width, [split])
    graph.add("cat_blast", 3.0, 0.5, searches)
    graph.add("cat", 3.0, 0.1, searches)


def _bwa(graph: _Graph, width: int) -> None:
    sources = [graph.add("fastq_reduce", 10.0, 5.0), graph.add("bwa_index", 80.0, 30.0)]
    aligned = graph.fan("bwa", (3.2, 0.3), width, sources)
    graph.add("cat_bwa", 40.0, 5.0, aligned)
    graph.add("cat", 10.0, 0.5, aligned)


def _cycles(graph: _Graph, width: int) -> None:
    outputs = []
    for _ in range(max(width // 4, 1)):
        baseline = graph.add("baseline_cycles", 60.0, 3.0)
        runs = graph.fan("cycles", (25.0, 2.0), 4, [baseline])
        more = graph.fan("fertilizer_increase_cycles", (25.0, 2.0), 4, [baseline])
        outputs.append(graph.add("cycles_output_parser", 5.0, 1.0, runs))
        outputs.append(graph.add("fertilizer_increase_output_parser", 5.0, 1.0, [*runs, *more]))
    graph.add("cycles_plots", 30.0, 2.0, outputs)


def _epigenomics(graph: _Graph, width: int) -> None:
    merged = []
    for _ in range(1 + width // 40):
        split = graph.add("fastq_split", 20.0, 20.0)
        tasks = graph.fan("filter_contams", (3.0, 8.0), max(width // (1 + width // 40), 2), [split])
        for stage, seconds, megabytes in (
            ("sol2sanger", 0.5, 6.0),
            ("fast2bfq", 1.4, 2.0),
            ("map", 50.0, 1.0),
        ):
            tasks = graph.after_each(stage, (seconds, megabytes), tasks)
        merged.append(graph.add("map_merge", 10.0, 30.0, tasks))
    whole = graph.add("map_merge_global", 8.0, 50.0, merged)
    graph.add("pileup", 20.0, 10.0, [graph.add("chr21", 15.0, 40.0, [whole])])


def _genome(graph: _Graph, width: int) -> None:
    for _ in range(max(width // 24, 1)):
        parts = graph.fan("individuals", (60.0, 5.0), min(width, 10), [])
        both = [graph.add("individuals_merge", 100.0, 60.0, parts), graph.add("sifting", 10.0, 1.0)]
        graph.fan("mutation_overlap", (55.0, 0.5), 7, both)
        graph.fan("frequency", (110.0, 0.5), 7, both)


def _montage(graph: _Graph, width: int) -> None:
    images = graph.fan("mProject", (12.0, 8.0), width)
    fits = []
    for at in range(width):
        for ahead in (1, 2):  # neighbours of a mosaic overlap
            if at + ahead < width:
                fits.append(graph.add("mDiffFit", 0.4, 0.5, [images[at], images[at + ahead]]))
    model = graph.add("mBgModel", 4.0, 0.1, [graph.add("mConcatFit", 1.5, 0.1, fits)])
    corrected = [graph.add("mBackground", 0.5, 8.0, [image, model]) for image in images]
    table = graph.add("mImgtbl", 1.0, 0.1, corrected)
    mosaic = graph.add("mAdd", 6.0, 150.0, [*corrected, table])
    graph.add("mViewer", 5.0, 3.0, [mosaic])


def _rnaseq(graph: _Graph, width: int) -> None:
    index = graph.add("star_genomegenerate", 60.0, 900.0, [graph.add("gtf_filter", 4.0, 20.0)])
    reports, counts = [], []
    for _ in range(max(width // 6, 2)):
        reads = graph.add("cat_fastq", 2.0, 60.0)
        reports.append(graph.add("fastqc", 8.0, 1.0, [reads]))
        trimmed = graph.add("trimgalore", 12.0, 50.0, [reads])
        aligned = graph.add("star_align", 90.0, 120.0, [trimmed, index])
        sorted_reads = graph.add("samtools_sort", 6.0, 110.0, [aligned])
        marked = graph.add("picard_markduplicates", 20.0, 100.0, [sorted_reads])
        for stage in ("rseqc", "qualimap", "dupradar", "stringtie", "preseq"):
            reports.append(graph.add(stage, 15.0, 1.0, [marked]))
        counts.append(graph.add("salmon_quant", 18.0, 5.0, [aligned]))
    reports.append(graph.add("deseq2_qc", 25.0, 2.0, [graph.add("tximport", 6.0, 4.0, counts)]))
    graph.add("multiqc", 30.0, 5.0, reports)


def _seismology(graph: _Graph, width: int) -> None:
    graph.add("wrapper_siftSTFByMisfit", 2.0, 0.5, graph.fan("sG1IterDecon", (0.7, 0.02), width))


def _soykb(graph: _Graph, width: int) -> None:
    called = []
    chromosomes = max(width // 8, 2)
    for _ in range(max(width // 12, 2)):
        task = graph.add("alignment_to_reference", 200.0, 300.0)
        for stage, seconds in (("sort_sam", 60.0), ("dedup", 80.0), ("add_replace", 60.0)):
            task = graph.add(stage, seconds, 250.0, [task])
        realigned = graph.add(
            "indel_realign", 120.0, 250.0, [graph.add("realign_target_creator", 150.0, 1.0, [task]), task]
        )
        called += graph.fan("haplotype_caller", (100.0, 5.0), chromosomes, [realigned])
    merged = graph.add("merge_gcvfs", 2_000.0, 80.0, called)
    typed = graph.add(
        "combine_variants", 30.0, 20.0, graph.fan("genotype_gvcfs", (130.0, 8.0), chromosomes, [merged])
    )
    for stage in ("snp", "indel"):
        chosen = graph.add(f"select_variants_{stage}", 20.0, 10.0, [typed])
        graph.add(f"filtering_{stage}", 10.0, 8.0, [chosen])


def _srasearch(graph: _Graph, width: int) -> None:
    reference = graph.add("bowtie2_build", 30.0, 40.0)
    long = _log_between(graph, 700.0, 4_000.0)
    aligned = []
    for _ in range(width):
        fetched = graph.add("fasterq_dump", 80.0, 400.0)
        aligned.append(graph.add("bowtie2", long, 1.0, [fetched, reference]))
    # More than thirty accessions are merged in two rounds.
    if width > 30:
        half = len(aligned) // 2
        aligned = [graph.add("merge", 4.0, 10.0, part) for part in (aligned[:half], aligned[half:])]
    graph.add("merge", 5.0, 20.0, aligned)


def _log_between(graph: _Graph, low: float, high: float) -> float:
    return math.exp(float(graph.draw.uniform(math.log(low), math.log(high))))


FAMILIES: dict[str, Callable[[_Graph, int], None]] = {
    "blast": _blast,
    "bwa": _bwa,
    "cycles": _cycles,
    "epigenomics": _epigenomics,
    "genome": _genome,
    "montage": _montage,
    "rnaseq": _rnaseq,
    "seismology": _seismology,
    "soykb": _soykb,
    "srasearch": _srasearch,
}


def generate_workflow(family: str, width: int, seed: int) -> Workflow:
    """A workflow of that family; `width`: about how many tasks can run side by side."""
    if family not in FAMILIES:
        raise unknown_name("family", family, FAMILIES)
    graph = _Graph(np.random.default_rng([seed, width, sorted(FAMILIES).index(family)]))
    FAMILIES[family](graph, max(width, 2))
    return workflow_of((f"{family}-{width}-{seed}", family), graph.tasks, graph.runtime, graph.edges)


def draw_workflow(draw: np.random.Generator, widest: int) -> Workflow:
    """A workflow of any family, most of them small."""
    family = sorted(FAMILIES)[int(draw.integers(len(FAMILIES)))]
    width = round(math.exp(float(draw.uniform(math.log(4.0), math.log(max(widest, 5))))))
    return generate_workflow(family, width, int(draw.integers(2**31)))
