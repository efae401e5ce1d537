"""How many images of each domain make a training batch."""

from collections.abc import Mapping

from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import Experiment


def batch_sizes(experiment: Experiment, counts: Mapping[str, int]) -> dict[str, int]:
    """Rows of each of the experiment's parts (sources or their undivided mixture, then targets) in one batch.

    ``counts`` is the number of images of each part, needed for ``by_size``. A mixture has the share of all its
    domains. What cannot be shared out evenly goes to the largest remainders, the first domain first.
    Raises ProgramError if the batch is too small to hold an image of every part.
    """
    parts, size = experiment.parts, experiment.batch_size
    domains = {
        part: len(experiment.sources) if part in experiment.source_parts and experiment.undivided else 1
        for part in parts
    }
    if experiment.batch_split == "per_domain":
        return {part: size * domains[part] for part in parts}
    weights = counts if experiment.batch_split == "by_size" else domains
    total = sum(weights[part] for part in parts)
    exact = {part: size * weights[part] / total for part in parts}
    rows = {part: int(exact[part]) for part in parts}
    by_remainder = sorted(parts, key=lambda part: rows[part] - exact[part])
    for part in by_remainder[: size - sum(rows.values())]:
        rows[part] += 1
    for part in parts:
        if rows[part] == 0:
            if size < len(parts):
                raise ProgramError(f"batch size: got {size} for {len(parts)} domains, expected at least one image each")
            rows[part] += 1
            rows[max(rows, key=rows.__getitem__)] -= 1
    return rows


def published_counts(experiment: Experiment) -> dict[str, int]:
    """The published number of images of each of the experiment's parts."""
    counts = experiment.data.counts
    return {part: sum(counts[domain] for domain in part.split("+")) for part in experiment.parts}
