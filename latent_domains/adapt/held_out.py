"""Sources that play the target: what a classifier that adapts is worth, by labels that are there."""

from pathlib import Path
from typing import Any

from latent_domains.common.files import remove
from latent_domains.experiment.experiment import SETTINGS, Experiment, make_experiment
from latent_domains.runs.run_folder import RunFolder, is_run_folder
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all

MOST = 4
"""The most sources that are held out, each for a training of its own: the largest."""


def train_held_out(folder: RunFolder, root: Path, *, threads: int | None, solver_mode: str | None) -> list[RunFolder]:
    """Train a run from the other sources to each source, as ``folder`` was trained, in folders of ``root``.

    Runs that are finished stay. With a single source there are none.
    """
    experiment = folder.experiment
    if len(experiment.sources) < 2:
        return []
    counts = experiment.data.counts
    chosen = sorted(experiment.sources, key=lambda source: -counts[source])[:MOST]
    runs = [_run(_without(folder, source), root / source, folder.data_folder, solver_mode) for source in chosen]
    print(f"holding out {', '.join(chosen)} in turn, to choose the classifier …", flush=True)
    train_all(runs, jobs=2, threads=threads and max(1, threads // 2), resume=True, solver_mode=solver_mode)
    return runs


def _run(experiment: Experiment, path: Path, data: Path, solver_mode: str | None) -> RunFolder:
    """The run folder at ``path``; it is written again if it holds another experiment."""
    if is_run_folder(path):
        if (folder := RunFolder.load(path)).experiment == experiment:
            return folder
        remove(path)
    return write_run(experiment, path, data=data, solver_mode=solver_mode)


def _without(folder: RunFolder, source: str) -> Experiment:
    """The same experiment with ``source`` as the target. From a single other source it is DIAL: it has no domains."""
    experiment = folder.experiment
    others = tuple(other for other in experiment.sources if other != source)
    chosen = {name: value for name, value in experiment.settings.items() if name in SETTINGS}
    chosen |= {"sources": others, "targets": (source,), "batch_size": _batch_size(experiment, len(others))}
    if experiment.method.domains:
        chosen["domains"] = folder.domains_file
    elif "k" in chosen:
        chosen["k"] = min(chosen["k"], len(others))
    if len(others) == 1:
        chosen = _dial(experiment, chosen)
    return make_experiment(experiment.data, **chosen)


def _dial(experiment: Experiment, chosen: dict[str, Any]) -> dict[str, Any]:
    of_branch = {*vars(experiment.method), "lambda_d", "lambda_t"}
    return {name: value for name, value in chosen.items() if name not in of_branch} | {"method": "dial"}


def _batch_size(experiment: Experiment, sources: int) -> int:
    """The size of a batch that gives each domain as many images."""
    size, domains = experiment.recipe.batch_size, len(experiment.batch_inputs)
    match experiment.recipe.batch_split:
        case "per_domain" | "per_group":
            return size
        case _:
            return size // domains * (sources + len(experiment.targets))
