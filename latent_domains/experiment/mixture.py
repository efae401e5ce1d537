"""How the undivided source of an experiment is made of its domains' LMDBs."""

from pathlib import Path

from latent_domains.common.program import from_root
from latent_domains.data.shares import shown
from latent_domains.experiment.experiment import Experiment


def join_options(experiment: Experiment, data: Path) -> list[str]:
    """The command line of ``python -m tools.join_lmdbs``; ``data`` is the folder of the LMDBs."""
    shares = ["--shares", shown(experiment.mixture.values())] if experiment.shares else []
    names = map(experiment.data.train_lmdb, (*experiment.mixture, *experiment.source_parts))
    return [*shares, *(from_root(data / name) for name in names)]
