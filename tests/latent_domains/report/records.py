"""Made-up records, where what is drawn of them matters and not how they came about."""

import json
from pathlib import Path
from typing import Any

from latent_domains.experiment.experiment import Experiment


def write_record(path: Path, experiment: Experiment, accuracy: float | None, **more: Any) -> Path:
    """Write a record as ``tools.evaluate`` does, with what older versions had and ``more``."""
    targets = {target: {"accuracy": accuracy, "test_images": 10} for target in experiment.targets}
    usage = None
    if experiment.method.has_branch:
        n, k = len(experiment.sources), experiment.k
        usage = {
            "sources": list(experiment.sources),
            "images": 10 * n,
            "counts": [[10] + [0] * (k - 1)] * n,
            "mean_probability": [[1.0] + [0.0] * (k - 1)] * n,
            "share": [1.0] + [0.0] * (k - 1),
            "purity": 1 / n,
            "nmi": 0.0,
        }
    record = {
        "experiment": experiment.to_json(),
        "iteration": experiment.recipe.iterations,
        "accuracy": accuracy,
        "test_images": 10,
        "targets": targets,
        "domain_usage": usage,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record | more))
    return path
