"""What the runs were made with, and a row for each run: its seed, times and place."""

import json
from collections.abc import Sequence
from typing import Any

from latent_domains.common.versions import CHANGES
from latent_domains.report.page import Section, TableBlock
from latent_domains.report.runs import LoadedRun
from latent_domains.runs.record import Record
from latent_domains.runs.run_state import state_of
from latent_domains.tables.results import NOTHING


def environment_section(runs: Sequence[LoadedRun]) -> Section:
    """Versions, hardware and commits of all runs, then the runs."""
    facts: dict[str, dict[str, None]] = {}
    for record in (run.record for run in runs if run.record):
        for what, value in _facts(record).items():
            facts.setdefault(what, {})[value] = None
    blocks = []
    if facts:
        rows = [[what, " / ".join(values)] for what, values in facts.items()]
        blocks.append(TableBlock("Versions, hardware and commits, as the records say", ["what", "value"], rows))
    blocks.append(
        TableBlock(
            "The runs; their accuracy is that of the last iteration, never of the best",
            ["run", "#seed", "#iterations", "#accuracy (%)", "#training", "evaluated (UTC)", "state"],
            [_row(run) for run in runs],
        )
    )
    return Section("environment", "Environment and runs", blocks)


def _facts(record: Record) -> dict[str, str]:
    """What a record says of how it was made, as text."""
    training = record.training
    facts: dict[str, Any] = {"commit of the evaluation": _short(record.commit)}
    commits = [session.commit for session in training.sessions] if training else []
    facts["commit of the training"] = ", ".join(dict.fromkeys(map(_short, commits or [None])))
    facts |= record.versions or {}
    facts |= record.hardware or {}
    if training and training.threads:
        facts["threads"] = training.threads
    if training and training.openblas:
        facts["OpenBLAS's kernel in training"] = training.openblas
    if training and (differences := [session.differs for session in training.sessions if session.differs]):
        facts["resumed with"] = "; ".join(differences)
    if training and training.weights:
        facts["began from"] = f"{training.weights.file}, SHA-256 {training.weights.sha256 or 'unknown'}"
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in facts.items()}


def _short(commit: str | None) -> str:
    """A commit's first digits, and whether there were changes."""
    return "unknown" if not commit else commit[:12] + (CHANGES if commit.endswith(CHANGES) else "")


def _row(run: LoadedRun) -> list[str]:
    record = run.record
    cells = [run.name, str(run.experiment.seed), str(run.experiment.recipe.iterations)]
    if record is None:
        return [*cells, NOTHING, NOTHING, NOTHING, str(state_of(run.folder))]
    return [
        *cells,
        NOTHING if record.accuracy is None else f"{100 * record.accuracy:.2f}",
        f"{record.training.seconds / 60:.1f} min" if record.training else NOTHING,
        (record.evaluated or NOTHING).removesuffix("+00:00").replace("T", " "),
        "finished" if run.folder else "a record alone",
    ]
