"""A report of one run, of several, or of a whole table."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from latent_domains.common.files import check_free, write_text
from latent_domains.common.program import ProgramError
from latent_domains.common.versions import CHANGES
from latent_domains.experiment.baselines import UNADAPTED
from latent_domains.experiment.methods import METHODS
from latent_domains.report.accuracy import accuracy_section, training_section
from latent_domains.report.alignment import alignment_section
from latent_domains.report.classes import classes_section
from latent_domains.report.comparison import ComparedTask, group_runs, group_runs_of_table
from latent_domains.report.domains import discovery_section
from latent_domains.report.page import Page, Section, TableBlock, check_figures, save_figures
from latent_domains.report.runs import LoadedRun, load_runs
from latent_domains.runs.record import Record
from latent_domains.runs.run_state import state_of
from latent_domains.tables.definition import Table
from latent_domains.tables.results import NOTHING, best_of


def environment_section(runs: Sequence[LoadedRun]) -> Section:
    """Return versions, hardware and commits of all runs, then the runs."""
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
    """Return the facts in a record about how it was made, as text."""
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
    """Return a commit's first digits, and whether there were changes."""
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


_BEGINNING = b"<!doctype html>"
"""The beginning of the page's template. A file that begins differently is never replaced."""


def build(
    paths: Sequence[Path],
    out: Path,
    *,
    table: Table | None = None,
    pictured: Sequence[str] | None = None,
    model: Path | None = None,
    figures: Path | None = None,
) -> Page:
    """Write the report of the runs (folders or records, see :func:`load_runs`) to ``out``, and return the page.

    With ``table``, the report has its rows, in its order, and the paper's numbers. ``pictured`` names the runs whose
    domains, features and classes are shown in pictures (None: :func:`runs_to_picture`). ``model`` is the run or record
    whose model is used: the first sentence is about it. ``figures`` is a folder for all charts as SVG and PNG. Refuses
    runs that are not in the table, and ``pictured`` names of other runs.
    """
    runs, baselines = load_runs([path.resolve() for path in paths])
    out, figures = out.resolve(), figures.resolve() if figures else None  # nets run in the root folder
    check_free(out, force=True, inputs=paths)
    if out.exists():
        with out.open("rb") as there:
            if there.read(len(_BEGINNING)) != _BEGINNING:
                raise ProgramError(f"{out}: exists and is not a report, expected another name")
    check_figures(figures)
    if not runs and not baselines:
        raise ProgramError("no run to report on, expected at least one run folder or record")
    tasks = group_runs_of_table(table, runs, baselines) if table else group_runs(runs, baselines)
    chosen = runs_to_picture(tasks) if pictured is None else _find_runs(runs, pictured)
    makers: list[Callable[[], Section]] = [
        lambda: accuracy_section(tasks),
        lambda: discovery_section(tasks, chosen),
        lambda: alignment_section(chosen),
        lambda: training_section(tasks),
        lambda: classes_section(tasks, chosen),
        lambda: environment_section(runs),
    ]
    sections = [make() for make in tqdm(makers, desc="report", unit="section")]
    made = f"Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by python -m tools.report."
    lead = _summary_sentences(tasks, runs)
    if model and (said := _of_model(tasks, model.resolve())):
        lead.insert(0, said)
    if chosen and len(chosen) < len(runs):
        usages = [run.record.domain_usage for run in chosen if run.record and run.experiment.method.has_branch]
        best = pictured is None and any(usage.has_true_domains for usage in usages)
        which = " (of mDA the run whose latent domains match the true ones best)" if best else ""
        lead.append(f"Shown in pictures: {', '.join(run.name for run in chosen)}{which}.")
    page = Page(_title(tasks, table), lead, sections, made)
    write_text(out, page.html())
    if figures:
        save_figures(page, figures)
    return page


def runs_to_picture(tasks: Sequence[ComparedTask]) -> list[LoadedRun]:
    """Choose the runs to picture: from the first task one without adaptation, and the mDA run with the best domains.

    The best have the highest NMI with the true domains or, if these are unknown, come from the first run that did not
    collapse. If there are only one or two runs, all are pictured.
    """

    def quality(run: LoadedRun) -> float:
        if not run.experiment.method.has_branch:
            return -2
        usage = run.record.domain_usage
        return usage.nmi if usage.has_true_domains else -float(usage.collapsed)

    runs = [run for task in tasks for run in task.runs]
    if len(runs) <= 2:
        return runs
    for task in tasks:
        finished = [run for run in task.runs if run.record]
        plain = [run for run in finished if not run.experiment.method.sees_target]
        plain.sort(key=lambda run: run.experiment.method.name != "source_only")
        adapted = [run for run in finished if run.experiment.method.sees_target]
        adapted.sort(key=quality, reverse=True)
        if finished:
            return [*plain[:1], *adapted[:1]]
    return []


def _find_runs(runs: Sequence[LoadedRun], names: Sequence[str]) -> list[LoadedRun]:
    known = {run.name: run for run in runs}
    for name in names:
        if name not in known:
            raise ProgramError(f"--show: found {name!r}, expected a run that is reported on: {', '.join(known)}")
    return [known[name] for name in names]


def _title(tasks: Sequence[ComparedTask], table: Table | None) -> str:
    if table:
        return f"{table.title} ({table.source})"
    return f"Latent domains: {tasks[0].name}" if len(tasks) == 1 else "Latent domains: several tasks"


def _of_model(tasks: Sequence[ComparedTask], model: Path) -> str | None:
    """Say how accurate the run or record ``model`` is.

    None if nothing is compared with it, or if its targets have no labels.
    """
    for task in tasks:
        for line in task.lines:
            is_model = any(run.path == model for run in line.runs) if line.runs else line.method == model.stem
            if is_model and line.mean is not None and len(task.lines) > 1:
                return f"{task.name}: the model, {line.name}, has {line.mean:.1f} %."
    return None


def _summary_sentences(tasks: Sequence[ComparedTask], runs: Sequence[LoadedRun]) -> list[str]:
    """Summarise the main numbers in a few sentences."""
    finished = sum(run.record is not None for run in runs)
    lead = [f"{finished} of {len(runs)} runs are finished."] if finished < len(runs) else []
    unadapted = {*UNADAPTED, *(name for name, method in METHODS.items() if not method.sees_target)}
    for task in tasks:
        lines = [line for line in task.lines if line.mean is not None]
        if not lines:
            continue
        best = best_of(lines)
        if len(lines) == 1:
            tested = "+".join(task.targets)
            lead.append(f"{best.name} on {task.name}: {best.mean:.1f} % of the test images of {tested} are right.")
        else:
            plain = [line for line in lines if line.method in unadapted]
            mean = "mean" if best.n > 1 else "accuracy"
            said = f"{task.name}: the best {mean} is {best.mean:.1f} % ({best.name})"
            if plain and best not in plain:
                least = best_of(plain)
                said += f"; without adaptation it is {least.mean:.1f} % ({least.name})"
            lead.append(said + ".")
    return lead
