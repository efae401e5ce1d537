"""What the workflow needs to know: which runs can be made here, from which files, by which commands.

The Snakefile uses no other module for this. Caffe is imported only to choose a GPU.
"""

from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from latent_domains.common.program import ProgramError
from latent_domains.common.validation import Positive, checked
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.sets.published import IMAGE_SETS
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.mixture import is_joined, join_options
from latent_domains.experiment.networks import NETWORKS
from latent_domains.experiment.pretrained import PRETRAINED, Pretrained, at_hand
from latent_domains.tables.definition import EXPERIMENTS, BaselineRun, Run, Table, data_folder, load, run_path
from latent_domains.tables.inputs import lacks_style, lmdbs, missing_images, missing_lmdbs, title, weights, why_missing
from latent_domains.tables.options import seed_list

FETCHED = ("digits", "digits_hard", "office_caltech_surf")
"""Datasets that ``tools.get_data`` makes of what it downloads."""

MADE = (*FETCHED, "demo")
"""Datasets that ``tools.get_data`` fetches or renders by itself."""

BASELINE_MEMORY = 6000


def _seeds(found: Any) -> tuple[int, ...]:
    """0,1,2 on a command line, or a list in a file."""
    try:
        return seed_list(",".join(map(str, found)) if isinstance(found, list) else str(found))
    except ArgumentTypeError as error:
        raise ValueError(f"found {found!r}, expected seeds such as 0,1,2") from error


def _images(found: str) -> str:
    if not Path(found).is_dir():
        raise ValueError(f"found {found!r}, expected a folder, a set's unpacked archive")
    return found


@dataclass(frozen=True)
class Config:
    """The values of ``snakemake --config``; :meth:`read` checks them."""

    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)] | None = None
    iterations: Positive | None = None
    images: Annotated[str, AfterValidator(_images)] | None = None
    """Folder of the unpacked archive of whichever image set is wanted."""
    weights: Literal["none"] | None = None
    """ "none": begin at random; None: with ImageNet's in DATA/weights."""
    solver_mode: Literal["CPU", "GPU"] | None = None
    data: Path = Path("data")
    runs: Path = Path("runs")
    experiments: Path = EXPERIMENTS
    threads: Positive = 1

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "Config":
        """The values that Snakemake's ``config`` holds. Raises ProgramError naming the key that is wrong."""
        return checked(cls, {key: value for key, value in config.items() if value is not None}, "--config")


@dataclass(frozen=True)
class Plan:
    """The tables and all that the Snakefile needs to know of them."""

    config: Config

    @cached_property
    def tables(self) -> dict[str, Table]:
        """All tables by name. Raises ProgramError if a definition is wrong or there is none."""
        files = sorted(self.config.experiments.glob("*.yaml"))
        if not files:
            raise ProgramError(f"{self.config.experiments}: found no NAME.yaml, expected the definitions of tables")
        chosen = {"seeds": self.config.seeds, "iterations": self.config.iterations}
        return {file.stem: load(file, **chosen) for file in files}

    @cached_property
    def runs(self) -> dict[str, Run]:
        """Every run of every table by DATASET/NAME; tables share runs."""
        return {run_path(run): run for table in self.tables.values() for run in table.runs}

    @cached_property
    def _per_seed(self) -> set[str]:
        """The runs whose seeds have LMDBs of their own."""
        return {run_path(run) for table in self.tables.values() if table.data_per_seed for run in table.runs}

    def data_folder(self, run: Run) -> Path:
        """The folder of a run's LMDBs."""
        return data_folder(self.config.data, run.seed, per_seed=run_path(run) in self._per_seed)

    def _set(self, run: Run) -> str:
        """The set of images or features that a run reads, as a folder below that of all data."""
        return str((self.data_folder(run) / run.data.lmdbs).relative_to(self.config.data))

    @cached_property
    def unfinished(self) -> dict[str, Run]:
        """The runs without a record when this is first called."""
        return {name: run for name, run in self.runs.items() if not self.record(run).is_file()}

    def record(self, run: Run) -> Path:
        return self.config.runs / run_path(run) / "record.json"

    def records(self, table: Table) -> list[Path]:
        """List the records of a table that exist or can be made."""
        return [
            self.record(run) for run in table.runs if run_path(run) not in self.unfinished or not self.obstacle(run)
        ]

    def to_make(self, table: Table) -> list[Path]:
        """List the records of a table that are missing and can be made."""
        return [record for record in self.records(table) if not record.is_file()]

    def obstacles(self, table: Table) -> list[str]:
        """List the reasons why runs of a table cannot be made here, each once."""
        obstacles = (self.obstacle(run) for run in table.runs if run_path(run) in self.unfinished)
        return list(dict.fromkeys(filter(None, obstacles)))

    def obstacle(self, run: Run) -> str:
        """Say why a run cannot be made here; empty if it can, even if something must be fetched first."""
        images, folder = run.data.images, self.data_folder(run)
        text = why_missing(run, self.config.data, per_seed=run_path(run) in self._per_seed)
        divided = {folder / run.data.train_lmdb(source) for source in run.sources}
        joined = {folder / run.data.train_lmdb(part) for part in self._joined(run).values()}
        are_there = all(map(is_lmdb, {*lmdbs(run, folder), *divided} - joined))
        if are_there and not (lacks_style(run, folder) and missing_images(run, self.config.data)):
            return ""  # mixtures can be joined, weights can be fetched, statistics of style extracted
        if run.data.name not in DATASETS:
            return text
        if images in MADE or (self.config.images and images in IMAGE_SETS):
            return ""
        if run.data.extracted and not missing_images(run, self.config.data):
            return ""
        if images in IMAGE_SETS:
            return f"{title(images)} is not on this machine: --config images=DIR names its unpacked archive"
        return text

    def prerequisites(self, run: Run) -> list[Path]:
        """List what must be made before a run: marks of missing LMDBs, and the weights."""
        missing = missing_lmdbs(run, self.data_folder(run))
        needed = []
        for name, part in self._joined(run).items():
            if (mixture := self.data_folder(run) / run.data.train_lmdb(part)) in missing:
                missing.remove(mixture)
                needed.append(self.mark(name))
        if missing:
            needed.append(self.mark(self._set(run)))
        if lacks_style(run, self.data_folder(run)):
            needed.append(self.mark(run.data.style))
        begin = self.weights(run)
        return [*needed, *([begin] if begin else [])]

    def _joined(self, run: Run) -> dict[str, str]:
        """Return the parts of a run's sources whose LMDBs are joined from others, by DATASET.LMDB."""
        parts = [part for part in run.task.source_inputs if is_joined(run, part)] if isinstance(run, Experiment) else []
        return {f"{self._set(run)}.{Path(run.data.train_lmdb(part)).name}": part for part in parts}

    @cached_property
    def mixtures(self) -> dict[str, tuple[Experiment, str]]:
        """A run and its part for each LMDB that is joined of others, by DATASET.LMDB."""
        return {name: (run, part) for run in self.runs.values() for name, part in self._joined(run).items()}

    def before_derived(self, name: str) -> list[Path]:
        """List what must exist before a mixture is joined, or features or statistics of style are extracted."""
        if name in self.mixtures:
            run, _ = self.mixtures[name]
            divided = [self.data_folder(run) / run.data.train_lmdb(source) for source in run.sources]
            return [] if all(map(is_lmdb, divided)) else [self.mark(self._set(run))]
        images = self.styles.get(name) or DATASETS[name].images
        runs = [run for run in self.runs.values() if name in (run.data.name, run.data.style)]
        missing = any(missing_images(run, self.config.data) for run in runs)
        weights_file = None if name in self.styles else self._features_weights(name)
        return [*([self.mark(images)] if missing else []), *([weights_file] if weights_file else [])]

    def derived_command(self, name: str, jobs: int) -> list[str]:
        """The command line that joins a mixture, in its seed's order, or extracts features or statistics of style."""
        if name in self.mixtures:
            run, part = self.mixtures[name]
            folder = self.data_folder(run)
            seed = ["--seed", str(run.seed)] if folder != self.config.data else []
            return ["python", "-m", "tools.join_lmdbs", *seed, *join_options(run, folder, part)]
        images, mode = self.styles.get(name) or DATASETS[name].images, self.config.solver_mode
        if name in self.styles:
            backbone = ["--style"]
        elif weights_file := self._features_weights(name):
            backbone = ["--weights", str(weights_file), *(["--solver-mode", mode] if mode else [])]
        else:
            backbone = ["--backbone", DATASETS[name].features.backbone]
        options = [images, *backbone, "--data", str(self.config.data), "--jobs", str(jobs)]
        return ["python", "-m", "tools.extract_features", *options]

    def mark(self, dataset: str) -> Path:
        """Return the file that tells Snakemake that a set's LMDBs are built.

        No rule has LMDBs as its output, because Snakemake deletes outputs before a job starts.
        """
        return self.config.data / ".built" / dataset

    def weights(self, run: Run) -> Path | None:
        """Return the weights file that a run starts with; None for random weights."""
        return None if self.config.weights else weights(run, self.config.data)

    @cached_property
    def image_sets(self) -> list[str]:
        """Sets of images whose LMDBs ``tools.get_data`` can build here."""
        datasets = [*MADE, *(IMAGE_SETS if self.config.images else ())]
        return list(
            dict.fromkeys([*datasets, *(self._set(run) for run in self.runs.values() if run.dataset in datasets)])
        )

    @cached_property
    def feature_sets(self) -> list[str]:
        """Datasets of features that ``tools.extract_features`` makes."""
        return sorted({run.data.name for run in self.runs.values() if run.data.name in DATASETS and run.data.extracted})

    @cached_property
    def styles(self) -> dict[str, str]:
        """The images of each set of statistics of style that ``tools.extract_features`` makes."""
        runs = [run for run in self.runs.values() if isinstance(run, Experiment) and run.method.reads_style]
        return {run.data.style: run.data.images for run in runs if run.data.name in DATASETS}

    def images_options(self, images: str) -> list[str]:
        """The command line of ``python -m tools.get_data`` for one of the ``image_sets``."""
        data = self.config.data
        sized = next((run.data for run in self.runs.values() if run.data.folder and self._set(run) == images), None)
        folder, dataset = (data / images).parent, sized.name if sized else Path(images).name
        options = [dataset, "--out", str(folder), *(["--image-size", str(sized.crop)] if sized else [])]
        if folder != data:
            options += ["--seed", folder.name.removeprefix("seed")]
            options += ["--downloads", str(data / "downloads")] if dataset in FETCHED else []
        if dataset in IMAGE_SETS:
            options += ["--images", self.config.images, "--jobs", str(self.config.threads)]
        return options

    def _features_weights(self, dataset: str) -> Path | None:
        """The file of weights that features are extracted with; None if they come as a package."""
        weights = self._at_hand(DATASETS[dataset].features.backbone)
        return None if weights.file.package else self._weights_folder / weights.caffemodel(0)

    @property
    def _weights_folder(self) -> Path:
        return self.config.data / "weights"

    def _at_hand(self, network: str) -> Pretrained:
        """The weights that nets of a network begin from here."""
        return at_hand(network, self._weights_folder)

    @cached_property
    def pretrained(self) -> dict[str, list[int]]:
        """ImageNet's weights that nets begin from here, by name, and how many domains mDA nets of them have."""
        found: dict[str, set[int]] = {name: set() for name, network in NETWORKS.items() if network.weights}
        for run in self.runs.values():
            if run.data.network in found and isinstance(run, Experiment):
                found[run.data.network].add(run.num_domains)
        return {self._at_hand(name).name: sorted(numbers - {0}) for name, numbers in found.items()}

    def weights_files(self, name: str) -> list[str]:
        """The files that nets begin from which begin from these weights."""
        weights = PRETRAINED[name]
        names = dict.fromkeys(weights.caffemodel(number) for number in (0, *self.pretrained[name]))
        return [str(self._weights_folder / name) for name in names]

    def weights_command(self, name: str) -> list[str]:
        """The command line that makes them."""
        command = ["python", "-m", "tools.get_weights", name, "--out", str(self._weights_folder)]
        if PRETRAINED[name].converted:
            command += [option for number in self.pretrained[name] for option in ("--num-domains", str(number))]
        return command

    def gpus_of(self, run: Run) -> int | None:
        """Return the number of GPUs of a run; None for none, because some clusters take 0 for a request."""
        if isinstance(run, BaselineRun):
            return None
        from latent_domains.runs.devices import choose_mode  # it imports Caffe

        return 1 if choose_mode(self.config.solver_mode, run.recipe.solver_mode) == "GPU" else None

    def memory(self, run: Run) -> int:
        """MB that a run takes."""
        return BASELINE_MEMORY if isinstance(run, BaselineRun) else NETWORKS[run.data.network].megabytes


def baseline_options(run: BaselineRun) -> list[str]:
    """The command line of ``python -m tools.baselines`` for a run, without its output."""
    options = [run.method, "--dataset", run.dataset, "--seed", str(run.seed)]
    options += ["--sources", "+".join(run.sources), "--targets", "+".join(run.targets)]
    for name in ("classifier", "dimension", "normalise", "k", "limit"):
        if (value := getattr(run, name)) is not None:
            options += [f"--{name}", str(value)]
    return options
