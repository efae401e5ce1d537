"""Adaptations for tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latent_domains.adapt.adaptation import Adaptation, Learner
from latent_domains.adapt.folder import Paths
from latent_domains.adapt.training import open_run
from latent_domains.data.domain_images import Domain, TaskImages
from latent_domains.data.image_list import Found
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.run_folder import RunFolder


def adaptation(
    root: Path, counts: Mapping[str, int] = {}, network: str = "resnet18", targets: int = 1, **chosen: Any
) -> Adaptation:
    """An adaptation on so many images of each domain, the last ones of which are targets."""
    domains = [Domain(name, Path(name), (None,) * count, Found()) for name, count in counts.items()]
    sources, last = domains[: len(domains) - targets], domains[len(domains) - targets :]
    images = TaskImages(tuple(sources), tuple(last), ("cat", "dog"), ())
    options = {"method": "mda", "iterations": None, "k": None, **chosen}
    return Adaptation(Paths(root), images, Learner(network), options, "adapt", threads=1, solver_mode="CPU")


def begin(root: Path, tiny_data: Path) -> RunFolder:
    """A run of one iteration on the tiny digits, in an adaptation's folder."""
    ours = adaptation(root)
    ours.paths.data.mkdir(parents=True)
    (ours.paths.data / "digits").symlink_to(tiny_data / "digits")
    return open_run(ours, make_experiment("digits", "source_only", iterations=1))
