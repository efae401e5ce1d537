"""What runs need from outside their folders, LMDBs and weights: whether it exists, and what makes it."""

import shlex
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from latent_domains.common.artefact import Artefact
from latent_domains.common.program import from_root
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.sets.published import IMAGE_SETS
from latent_domains.experiment.batches import is_joined, join_options
from latent_domains.experiment.datasets import DATASETS, STYLE_IS_OF, Dataset
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import NETWORKS, at_hand
from latent_domains.tables.definition import BaselineRun, Run, data_folder, run_path
from latent_domains.tables.options import Config

FETCHED = ("digits", "digits_hard", "office_caltech_surf")
"""Datasets that ``tools.get_data`` makes from downloads."""


@dataclass(frozen=True)
class Need(Artefact):
    """LMDBs, weights or the record of a run (``paths``) that one of our programs makes.

    ``job`` begins with the rule of the Snakefile: fetch, which may need a network, derive, train or baseline. ``title``
    describes it, with a verb. ``argv`` are the program and its arguments, ``parallel`` its option for several processes
    or threads, if any. ``made_by`` is the command as users type it, by default the same. ``impossible`` explains why
    nothing, or not the workflow, can make it.
    """

    job: str
    title: str
    paths: tuple[Path, ...]
    argv: tuple[str, ...] = ()
    needs: tuple["Need", ...] = ()
    parallel: str = ""
    made_by: str = ""
    impossible: str = ""

    def is_there(self, *, force: bool = False) -> bool:
        return not self._lacks

    @property
    def _lacks(self) -> list[Path]:
        return [path for path in self.paths if not (path.is_file() or is_lmdb(path))]

    @property
    def obstacle(self) -> str:
        """Say why the workflow cannot make it, or what it needs; empty if it can, even after fetching something.

        The workflow does not know where a user's own data come from.
        """
        for need in self.missing():
            if need.impossible or not need.argv:
                return need.impossible or need.why_missing()
        return ""

    def command(self, jobs: int | None = None) -> list[str]:
        """Return the command line."""
        return ["python", "-m", *self.argv, *([self.parallel, str(jobs)] if self.parallel and jobs else [])]

    def why_missing(self) -> str:
        """Name the first missing need and the commands from there on."""
        first, *others = self.missing()
        if not (first.argv or first.made_by):
            return first.impossible
        lacks, what = first._lacks, first.title
        if len(lacks) < len(first.paths):
            what = f"{', '.join(map(from_root, lacks))} {'are' if len(lacks) > 1 else 'is'}"
        commands = [each.made_by or shlex.join(each.command()) for each in (first, *others)]
        return f"{what} not on this machine: {', then '.join(commands)}"


def is_pretrained(run: Run) -> bool:
    """Say whether the paper starts a run with ImageNet's weights: no baselines, and no nets that begin at random."""
    return isinstance(run, Experiment) and bool(NETWORKS[run.data.network].weights)


def why_missing(run: Run, data: Path, *, per_seed: bool = False) -> str:
    """Name what a run lacks in a data folder and the command that makes it; empty if nothing is missing."""
    name = run_path(run)
    needs = Needs(Config(data=data), {name: run}, {name} if per_seed else set())
    return next((need.why_missing() for need in needs.of(run) if not need.is_there()), "")


@dataclass(frozen=True)
class Needs:
    """The needs of ``runs``, by DATASET/NAME; those named in ``per_seed`` have LMDBs for each seed."""

    config: Config
    runs: Mapping[str, Run]
    per_seed: Set[str]

    def of(self, run: Run) -> list[Need]:
        """List all that a run reads, existing or not."""
        data, folder = run.data, self.data_folder(run)
        joined, style = {}, ()
        if isinstance(run, Experiment):
            train, tests, style = run.batch_inputs, run.task.tests.values(), run.style_lmdbs
            joined = {folder / data.train_lmdb(part): part for part in train if is_joined(run, part)}
        else:
            train, tests = (*run.sources, *run.targets), run.targets
        lmdbs = [folder / name for name in (*map(data.train_lmdb, train), *map(data.test_lmdb, tests))]
        needs = [self._join(run, part, mixture) for mixture, part in joined.items()]
        needs.append(self._build(run, *(lmdb for lmdb in dict.fromkeys(lmdbs) if lmdb not in joined)))
        if style:
            needs.append(self._find_style(run))
        if begin := self.weights(run):
            needs.append(self._get_weights(data.network, begin))
        return needs

    def record(self, run: Run) -> Need:
        """Return the record of a run, which exists when the run is finished."""
        file, path = self.config.runs / run_path(run) / "record.json", run_path(run)
        if isinstance(run, BaselineRun):
            argv = ("tools.baselines", *self._baseline_options(run), "--force", str(file))  # two calls may make it
            return Need(f"baseline/{path}", f"{path} is", (file,), argv, tuple(self.of(run)))
        begin = self.weights(run)
        options = [*self.config.mode, *(["--weights", str(begin)] if begin else []), str(file.parent)]
        argv = ("tools.train", "--resume", "--wait", *options)
        return Need(f"train/{path}", f"{path} is", (file,), argv, tuple(self.of(run)), "--threads")

    def _baseline_options(self, run: BaselineRun) -> list[str]:
        options = [run.method, "--dataset", run.dataset, "--seed", str(run.seed)]
        options += ["--sources", "+".join(run.sources), "--targets", "+".join(run.targets)]
        for name in ("classifier", "dimension", "normalise", "k", "limit"):
            if (value := getattr(run, name)) is not None:
                options += [f"--{name}", str(value)]
        return [*options, "--data", str(self.data_folder(run))]

    def data_folder(self, run: Run) -> Path:
        """Return the folder of a run's LMDBs."""
        return data_folder(self.config.data, run.seed, per_seed=run_path(run) in self.per_seed)

    def weights(self, run: Run) -> Path | None:
        """Return the existing weights file with which a run starts; None for random weights."""
        if self.config.weights or not is_pretrained(run):
            return None
        return self._weights_folder / at_hand(run.data.network, self._weights_folder).caffemodel(run.num_domains)

    def _join(self, run: Experiment, part: str, mixture: Path) -> Need:
        """Return the LMDB of an undivided mixture, in the order of its seed if each seed has its own LMDBs."""
        folder = self.data_folder(run)
        seed = ["--seed", str(run.seed)] if folder != self.config.data else []
        argv = ("tools.join_lmdbs", *seed, *join_options(run, folder, part))
        divided = self._build(run, *(folder / run.data.train_lmdb(source) for source in run.sources))
        job = f"derive/{self._name(mixture.parent)}.{mixture.name}"
        return Need(job, f"{self._name(mixture)} is", (mixture,), argv, (divided,))

    def _build(self, run: Run, *lmdbs: Path) -> Need:
        """Return LMDBs of a run's dataset."""
        data, weights = run.data, ()
        if data.name in DATASETS and not data.extracted:
            return self._get_data(data, self.data_folder(run), *lmdbs)
        if data.name not in DATASETS:
            return Need(f"fetch/{data.name}", f"{title(data.name)} is", lmdbs, made_by=data.made_by)
        need = Need(f"derive/{data.name}", f"{title(data.name)} is", lmdbs, made_by=data.made_by)
        chosen = at_hand(data.features.backbone, self._weights_folder)
        file = self._weights_folder / chosen.caffemodel(0)
        if not chosen.file.package:
            weights = (self._get_weights(chosen.network, file),)
        return self._extracted(need, run, *weights, FILE=file)

    def _get_data(self, data: Dataset, folder: Path, *lmdbs: Path) -> Need:
        """Return LMDBs of a set of images in a data folder, from its archive or a download."""
        argv, made_by, impossible = (
            [*_argv(data.made_by, DIR=self.config.images), "--out", str(folder)],
            data.made_by,
            "",
        )
        if folder != self.config.data:
            argv += ["--seed", folder.name.removeprefix("seed")]
            argv += ["--downloads", str(self.config.data / "downloads")] if data.name in FETCHED else []
            made_by += f" --seed N --out {data_folder(self.config.data, 'N', per_seed=True)} for each seed N"
        archived = "--images" in argv
        if archived and not self.config.images:
            where = "--config images=DIR names its unpacked archive"
            impossible = f"{title(data.name)} is not on this machine: {where}"
        job = f"fetch/{self._name(folder / data.lmdbs)}"
        return Need(job, f"{title(data.name)} is", lmdbs, tuple(argv), (), "--jobs" * archived, made_by, impossible)

    def _find_style(self, run: Experiment) -> Need:
        """Return the statistics of style of a run's images."""
        data, lmdbs = run.data, tuple(self.data_folder(run) / lmdb for lmdb in run.style_lmdbs)
        job, made_by, of = f"derive/{data.style}", data.style_made_by, f"statistics of style of {title(data.images)}"
        if not made_by:
            return Need(job, "", lmdbs, impossible=f"there are no {of}: {STYLE_IS_OF}")
        need = Need(job, f"the {of} are", lmdbs, made_by=made_by)
        return self._extracted(need, run) if data.images in DATASETS else need

    def _extracted(self, need: Need, run: Run, *weights: Need, **places: Path) -> Need:
        """Return features or statistics of style of a run's images, which one program extracts."""
        images, data = DATASETS[run.data.images], self.config.data
        stored = (data / images.name / Path(run.data.train_lmdb(domain)).name for domain in run.data.domains)
        argv = (*_argv(need.made_by, **places), "--data", str(data))
        return replace(need, argv=argv, needs=(self._get_data(images, data, *stored), *weights), parallel="--jobs")

    def _get_weights(self, network: str, file: Path) -> Need:
        """Return weights that nets of a network begin from, for nets of each number of domains."""
        chosen = at_hand(network, self._weights_folder)
        options = [chosen.name, "--out", str(self._weights_folder)]
        for number in self._num_domains[network] if chosen.converted else ():
            options += ["--num-domains", str(number)]
        what = f"{self._name(file)}, which the net begins from, is"
        return Need(f"fetch/weights/{chosen.name}", what, (file,), ("tools.get_weights", *options))

    @cached_property
    def _num_domains(self) -> dict[str, list[int]]:
        """Return the numbers of domains of the mDA nets of each network."""
        found: dict[str, set[int]] = {}
        for run in self.runs.values():
            if isinstance(run, Experiment):
                found.setdefault(run.data.network, set()).add(run.num_domains)
        return {network: sorted(numbers - {0}) for network, numbers in found.items()}

    @property
    def _weights_folder(self) -> Path:
        return self.config.data / "weights"

    def _name(self, path: Path) -> str:
        return path.relative_to(self.config.data).as_posix()


def _argv(made_by: str, **places: object) -> list[str]:
    """Return a command without ``python -m``, its placeholders replaced."""
    return [str(places.get(word, word)) for word in shlex.split(made_by)[2:]]


def title(dataset: str) -> str:
    """Return a dataset's name for sentences."""
    images = DATASETS[dataset].images if dataset in DATASETS else dataset
    name = IMAGE_SETS[images].title if images in IMAGE_SETS else images
    return name if images == dataset else f"the set of {dataset.removeprefix(f'{images}_')} features of {name}"
