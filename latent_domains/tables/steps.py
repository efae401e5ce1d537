"""What makes the data that runs lack: LMDBs, and the weights that their nets begin from."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.sets.published import IMAGE_SETS
from latent_domains.experiment.batches import is_joined, join_options
from latent_domains.experiment.datasets import DATASETS, Dataset
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import at_hand
from latent_domains.tables.config import Config
from latent_domains.tables.definition import Run, data_folder, run_path
from latent_domains.tables.inputs import (
    lacks_style,
    missing_images,
    missing_lmdbs,
    title,
    weights,
    why_missing,
    why_no_style,
)

FETCHED = ("digits", "digits_hard", "office_caltech_surf")
"""Datasets that ``tools.get_data`` makes of what it downloads."""


@dataclass(frozen=True)
class Step:
    """One of our programs with its arguments, ``argv``, that makes data.

    ``name`` begins with the rule of the Snakefile: fetch, which may need a network, or derive. ``needs`` are the steps
    before it. ``parallel`` programs take ``--jobs``. ``obstacle`` says why it cannot be done here; empty if it can.
    """

    name: str
    argv: tuple[str, ...] = ()
    needs: tuple["Step", ...] = ()
    parallel: bool = False
    obstacle: str = ""

    def command(self, jobs: int) -> list[str]:
        """Return the command line."""
        return ["python", "-m", *self.argv, *(["--jobs", str(jobs)] if self.parallel else [])]

    def in_order(self) -> Iterator["Step"]:
        """Iterate over the steps before this one, then itself."""
        for step in self.needs:
            yield from step.in_order()
        yield self


@dataclass(frozen=True)
class Steps:
    """The steps of ``runs``, by DATASET/NAME; those named in ``per_seed`` have LMDBs for each seed."""

    config: Config
    runs: Mapping[str, Run]
    per_seed: Set[str]

    @cached_property
    def by_name(self) -> dict[str, Step]:
        """Every step that some run needs."""
        return {step.name: step for run in self.runs.values() for one in self.needs(run) for step in one.in_order()}

    def needs(self, run: Run) -> list[Step]:
        """List the steps that make what a run lacks."""
        folder = self.data_folder(run)
        missing, needed = missing_lmdbs(run, folder), []
        for part in run.task.source_inputs if isinstance(run, Experiment) else ():
            if is_joined(run, part) and (mixture := folder / run.data.train_lmdb(part)) in missing:
                missing.remove(mixture)
                needed.append(self._join(run, part))
        if missing:
            needed.append(self._build(run))
        if lacks_style(run, folder):
            needed.append(self._find_style(run))
        if (begin := self.weights(run)) and not begin.is_file():
            needed.append(self._get_weights(run.data.network))
        return needed

    def obstacle(self, run: Run) -> str:
        """Say why a run cannot be made here; empty if it can, even if something must be fetched first."""
        steps = (step for one in self.needs(run) for step in one.in_order())
        return next((step.obstacle for step in steps if step.obstacle), "")

    def data_folder(self, run: Run) -> Path:
        """Return the folder of a run's LMDBs."""
        return data_folder(self.config.data, run.seed, per_seed=run_path(run) in self.per_seed)

    def weights(self, run: Run) -> Path | None:
        """Return the weights file that a run starts with; None for random weights."""
        return None if self.config.weights else weights(run, self.config.data)

    def _join(self, run: Experiment, part: str) -> Step:
        """Make the LMDB of an undivided mixture, in the order of its seed where each seed has LMDBs of its own."""
        folder = self.data_folder(run)
        mixture = folder / run.data.train_lmdb(part)
        divided = [folder / run.data.train_lmdb(source) for source in run.sources]
        seed = ["--seed", str(run.seed)] if folder != self.config.data else []
        return Step(
            f"derive/{self._name(mixture.parent)}.{mixture.name}",
            ("tools.join_lmdbs", *seed, *join_options(run, folder, part)),
            () if all(map(is_lmdb, divided)) else (self._build(run),),
        )

    def _build(self, run: Run) -> Step:
        """Make the LMDBs of a run's dataset."""
        data, folder = run.data, self.data_folder(run)
        if data.name not in DATASETS:
            reason = why_missing(run, self.config.data, per_seed=folder != self.config.data)
            return Step(f"fetch/{data.name}", obstacle=reason)
        if not data.extracted:
            return self._get_data(data, folder)
        backbone = data.features.backbone
        chosen = at_hand(backbone, self._weights_folder)
        if chosen.file.package:
            return self._extract(run, data.name, ["--backbone", backbone])
        file = self._weights_folder / chosen.caffemodel(0)
        before = () if file.is_file() else (self._get_weights(backbone),)
        return self._extract(run, data.name, ["--weights", str(file)], before)

    def _get_data(self, data: Dataset, folder: Path) -> Step:
        """Make the LMDBs of a set of images in a data folder, from its archive or a download."""
        options = [data.name, "--out", str(folder)]
        if data.folder:
            options += ["--image-size", str(data.crop)]
        if folder != self.config.data:
            options += ["--seed", folder.name.removeprefix("seed")]
            options += ["--downloads", str(self.config.data / "downloads")] if data.name in FETCHED else []
        obstacle = ""
        if archived := data.name in IMAGE_SETS:
            options += ["--images", str(self.config.images)]
            if not self.config.images:
                obstacle = f"{title(data.name)} is not on this machine: --config images=DIR names its unpacked archive"
        name = f"fetch/{self._name(folder / data.lmdbs)}"
        return Step(name, ("tools.get_data", *options), parallel=archived, obstacle=obstacle)

    def _find_style(self, run: Run) -> Step:
        """Make the statistics of style of a run's images. The workflow does not know where a user's pictures are."""
        if run.data.images in DATASETS and run.data.style_made_by:
            return self._extract(run, run.data.style, ["--style"])
        return Step(f"derive/{run.data.style}", obstacle=why_no_style(run, self.config.data))

    def _extract(self, run: Run, name: str, backbone: list[str], before: tuple[Step, ...] = ()) -> Step:
        """Make features or statistics of style of a run's images."""
        images, data = run.data.images, self.config.data
        if missing_images(run, data):
            before = (self._get_data(DATASETS[images], data), *before)
        argv = ("tools.extract_features", images, *backbone, "--data", str(data))
        return Step(f"derive/{name}", argv, before, parallel=True)

    def _get_weights(self, network: str) -> Step:
        """Get the weights that nets of a network begin from, for nets of each number of domains."""
        chosen = at_hand(network, self._weights_folder)
        options = [chosen.name, "--out", str(self._weights_folder)]
        for number in self._num_domains[network] if chosen.converted else ():
            options += ["--num-domains", str(number)]
        return Step(f"fetch/weights/{chosen.name}", ("tools.get_weights", *options))

    @cached_property
    def _num_domains(self) -> dict[str, list[int]]:
        """How many domains the mDA nets of each network have."""
        found: dict[str, set[int]] = {}
        for run in self.runs.values():
            if isinstance(run, Experiment):
                found.setdefault(run.data.network, set()).add(run.num_domains)
        return {network: sorted(numbers - {0}) for network, numbers in found.items()}

    @property
    def _weights_folder(self) -> Path:
        return self.config.data / "weights"

    def _name(self, folder: Path) -> str:
        return folder.relative_to(self.config.data).as_posix()
