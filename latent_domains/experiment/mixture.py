"""Commands that join the LMDBs of domains into those of an experiment's sources."""

import shlex
from pathlib import Path

from latent_domains.common.program import from_root
from latent_domains.data.shares import shares_text
from latent_domains.experiment.experiment import Experiment


def is_joined(experiment: Experiment, part: str) -> bool:
    """Whether ``python -m tools.join_lmdbs`` makes the LMDB of one of the experiment's parts."""
    return experiment.task.undivided and part in experiment.task.source_inputs


def join_options(experiment: Experiment, data: Path, part: str) -> list[str]:
    """The command line of ``python -m tools.join_lmdbs`` for such a part; ``data`` is the folder of the LMDBs."""
    shares = ["--shares", shares_text(experiment.task.mixture.values())] if experiment.task.shares else []
    domains = map(experiment.data.train_lmdb, experiment.task.mixture)
    return [*shares, *(from_root(data / name) for name in (*domains, experiment.data.train_lmdb(part)))]


def made_by(experiment: Experiment, data: Path, part: str) -> str:
    """The command that builds the LMDB of a part; ``data`` is the folder of the LMDBs."""
    if is_joined(experiment, part):
        return shlex.join(["python", "-m", "tools.join_lmdbs", *join_options(experiment, data, part)])
    return experiment.data.made_by
