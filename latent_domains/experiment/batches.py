"""Compute how many images of each domain a training batch has."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from latent_domains.common.program import ProgramError, from_root
from latent_domains.data.names import mixture_counts, shares_text
from latent_domains.experiment.experiment import Experiment

FEWEST = 2
"""Fewest images of a domain: a single one has no variance, is normalised to 0 and leaves a running variance of 0."""


def batch_sizes(experiment: Experiment, counts: Mapping[str, int]) -> dict[str, int]:
    """Return the rows of each part (sources or their undivided mixture, then targets) in one batch.

    ``counts`` is the number of images of each part, needed for ``by_size``. A mixture has the share of all its domains.
    Remaining rows go to the largest remainders, the first domain first. Refuses a batch without room for FEWEST images
    of each domain.
    """
    parts, size = experiment.batch_inputs, experiment.recipe.batch_size
    domains = {
        part: len(experiment.sources) if part in experiment.task.source_inputs and experiment.task.undivided else 1
        for part in parts
    }
    match experiment.recipe.batch_split:
        case "per_domain":
            _check(size, 1)
            return {part: size * domains[part] for part in parts}
        case "per_group":
            sources = {part: domains[part] for part in experiment.task.source_inputs}
            return {**_shared_out(size, sources), **{part: size for part in parts if part not in sources}}
        case "by_size":
            return _shared_out(size, {part: counts[part] for part in parts})
        case _:
            return _shared_out(size, domains)


def _shared_out(size: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divide ``size`` rows among the parts by their weights."""
    _check(size, len(weights))
    total = sum(weights.values())
    exact = {part: size * weight / total for part, weight in weights.items()}
    rows = {part: int(share) for part, share in exact.items()}
    by_remainder = sorted(rows, key=lambda part: rows[part] - exact[part])
    for part in by_remainder[: size - sum(rows.values())]:
        rows[part] += 1
    for part in rows:
        while rows[part] < FEWEST:
            rows[part] += 1
            rows[max(rows, key=rows.__getitem__)] -= 1
    return rows


def _check(size: int, domains: int) -> None:
    if size < FEWEST * domains:
        among = f"{size} for {domains} domains" if domains > 1 else f"{size} for each domain"
        raise ProgramError(
            f"batch size: got {among}, expected at least {FEWEST} images of each: one alone has no variance"
        )


def published_counts(experiment: Experiment) -> dict[str, int]:
    """Return the published number of images of each part; of a mixture, as many as its shares allow."""
    counts = dict(experiment.data.counts)
    if experiment.task.undivided:
        of_sources, (mixture,) = [counts[source] for source in experiment.sources], experiment.task.source_inputs
        counts[mixture] = sum(mixture_counts(of_sources, experiment.task.shares))
    return {part: counts[part] for part in experiment.batch_inputs}


def is_joined(experiment: Experiment, part: str) -> bool:
    """Say whether ``python -m tools.join_lmdbs`` makes the LMDB of one of the experiment's parts."""
    return experiment.task.undivided and part in experiment.task.source_inputs


def join_options(experiment: Experiment, data: Path, part: str) -> list[str]:
    """Return the arguments of ``python -m tools.join_lmdbs`` for such a part; ``data`` is the folder of the LMDBs."""
    shares = ["--shares", shares_text(experiment.task.mixture.values())] if experiment.task.shares else []
    domains = map(experiment.data.train_lmdb, experiment.task.mixture)
    return [*shares, *(from_root(data / name) for name in (*domains, experiment.data.train_lmdb(part)))]


def made_by(experiment: Experiment, data: Path, part: str) -> str:
    """Return the command that builds the LMDB of a part; ``data`` is the folder of the LMDBs."""
    if is_joined(experiment, part):
        return shlex.join(["python", "-m", "tools.join_lmdbs", *join_options(experiment, data, part)])
    return experiment.data.made_by
