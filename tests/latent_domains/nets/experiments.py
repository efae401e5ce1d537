"""Experiments with their nets, at the published batch sizes."""

from pathlib import Path

from latent_domains.experiment.batches import batch_sizes, published_counts
from latent_domains.experiment.datasets import Dataset
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.experiment.methods import CONTROLS
from latent_domains.nets.family import make_nets


def nets_of(
    dataset: str | Dataset, method: str = "mda", *, data: Path | str = "data", test_batch: int = 5, **options
) -> tuple[Experiment, dict[str, str]]:
    """An experiment and its nets; ``options`` are ``make_experiment``'s, ``domain_label_lmdbs`` and ``record_files``.

    Those of a control need not be there where its nets are only read.
    """
    labels, records = options.pop("domain_label_lmdbs", None), options.pop("record_files", None)
    experiment = make_experiment(dataset, method, **options)
    if labels is None and method in CONTROLS:
        labels = {part: f"labels/{part}" for part in experiment.task.source_inputs}
    nets = make_nets(
        experiment,
        str(data),
        sizes=batch_sizes(experiment, published_counts(experiment)),
        test_batch_sizes=dict.fromkeys(experiment.targets, test_batch),
        domain_label_lmdbs=labels,
        record_files=records,
    )
    return experiment, nets
