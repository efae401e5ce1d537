"""Whether runs that differ in their seed find the same latent domains."""

from collections.abc import Sequence
from itertools import combinations, islice, zip_longest
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data.lmdb_io import read
from latent_domains.report.comparison import Task
from latent_domains.report.page import Block, TableBlock, Text, missing
from latent_domains.report.runs import LoadedRun
from latent_domains.runs.domain_usage import ari, in_both
from latent_domains.runs.outputs import HISTORY_IMAGES, looked_at_lmdbs, source_probabilities
from latent_domains.runs.preflight import check_nets


def agreement(assignments: Sequence[NDArray[np.int64]]) -> list[float]:
    """Adjusted Rand index of every two assignments (n) of the same images; the order of the domains does not matter."""
    return [ari(in_both(*pair)) for pair in combinations(assignments, 2)]


def stability_blocks(tasks: Sequence[Task]) -> list[Block]:
    """A table of what has several finished runs with a branch, and why some of that cannot be asked."""
    rows, notes = [], []
    for task in tasks:
        for line in task.lines:
            runs = [run for run in line.runs if run.record and run.experiment.has_branch and run.experiment.k > 1]
            if len(runs) < 2:
                continue
            try:
                found = _assignments(runs)
            except ProgramError as error:
                notes.append(missing(f"No agreement of the seeds of {line.name}", error))
                continue
            pairs = agreement(found)
            rows.append(
                (
                    f"{line.name}, {task.name}" if len(tasks) > 1 else line.name,
                    str(len(found)),
                    str(len(found[0])),
                    f"{fmean(pairs):.2f}",
                    f"{min(pairs):.2f}",
                    str(sum(run.record.domain_usage.collapsed for run in runs)),
                )
            )
    if not rows:
        return notes
    text = (
        "Adjusted Rand index of two runs' domains of the same source images, held-out ones where there are any: 1 if "
        "the domains are the same, in whatever order, 0 as by chance. Two collapsed runs agree without saying anything."
    )
    header = ("runs that differ in their seed", "#runs", "#images", "#mean of all pairs", "#lowest", "#collapsed runs")
    return [TableBlock("How stable the latent domains are over seeds", header, rows), Text(text), *notes]


def _assignments(runs: Sequence[LoadedRun]) -> list[NDArray[np.int64]]:
    """The latent domain of the same source images (n) by each run. Raises ProgramError if a run cannot be asked."""
    lmdbs, found = None, []
    for run in runs:
        folder, snapshot = run.trained()
        check_nets(folder)
        of_run, _ = looked_at_lmdbs(folder)
        lmdbs = lmdbs or of_run
        for source, lmdb in of_run.items():
            if source not in lmdbs or not _same_images(lmdb, lmdbs[source]):
                raise ProgramError(f"{run.name} has other images than {runs[0].name}: {lmdb}")
        rows = source_probabilities(folder, snapshot, lmdbs=lmdbs, limit=HISTORY_IMAGES, quiet=True)
        found.append(np.concatenate(list(rows.values())).argmax(axis=1))
    return found


def _same_images(first: Path, second: Path) -> bool:
    """Whether two LMDBs hold the same of what is looked at, wherever they lie: each seed may have a copy of its own."""
    looked_at = [(datum for _, datum in islice(read(lmdb), HISTORY_IMAGES)) for lmdb in (first, second)]
    return first == second or all(one == other for one, other in zip_longest(*looked_at))
