"""The folder of an adaptation: its files, its options, and the files of earlier calls."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from latent_domains.common.files import json_text, read_json, remove, write_text
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some
from latent_domains.data.names import folder_label
from latent_domains.experiment.datasets import STYLE
from latent_domains.models.classifier import description_file
from latent_domains.models.model import model_files
from latent_domains.runs.lock import LOCK, check_unlocked, locked
from latent_domains.runs.run_folder import RunFolder, is_run_folder

OTHERWISE = "choose another --out, or pass --force to start again"
"""What to do if a folder was begun with other options."""


class Paths:
    """Files and folders of an adaptation; :func:`latent_domains.adapt.results.contents` describes them.

    ``name`` is the adaptation's, by default that of the folder. ``lmdbs`` and ``style`` contain an LMDB for each
    domain, ``dataset`` describes them for other experiments. ``weights`` has a folder for each converted checkpoint,
    named by its hash. ``model`` is the prefix of the folded model's files. ``results`` are made from a finished
    training.
    """

    def __init__(self, root: Path, name: str | None = None) -> None:
        self.root, self.name = root, name or folder_label(root)
        self.settings, self.readme, self.report = root / "settings.json", root / "README.txt", root / "report.html"
        self.data, self.run, self.weights = root / "data", root / "run", root / "weights"
        self.lmdbs, self.style = self.data / self.name, self.data / f"{self.name}_{STYLE}"
        self.dataset = self.lmdbs / "dataset.json"
        self.model, self.onnx = root / "model", root / "model.onnx"
        self.model_files = (*model_files(self.model), description_file(self.model), self.onnx)
        self.domain_model = root / "model.domains.npz"
        self.baselines, self.held_out = root / "baselines", root / "held_out"
        self.choice, self.chosen = root / "choice.json", root / "chosen.caffemodel"
        self.predictions, self.domains = root / "predictions.csv", root / "domains.csv"
        self.found = root / "discovery.html"
        self.results = (self.readme, self.report, self.domains, self.predictions, *self.model_files, self.baselines)
        self.results += (self.domain_model, self.choice, self.chosen, self.held_out)

    @property
    def features(self) -> "Paths":
        """The folder of the classifier on features alone, if a backbone is fine-tuned."""
        return Paths(self.root / "features", self.name)

    @property
    def is_begun(self) -> bool:
        """Whether a training was begun: from then on images and options are compared, and not replaced."""
        return self.run.exists()

    @property
    def left(self) -> list[str]:
        """The existing results."""
        return [path.name for path in self.results if path.exists()]


@contextmanager
def held(paths: Paths) -> Iterator[None]:
    """Make the folder, if it is missing, and keep other calls out of it.

    Refuses a folder with other files and without settings, and one in which another call works.
    """
    folder, settings = paths.root, paths.settings
    if folder.exists() and not folder.is_dir():
        raise ProgramError(f"{folder}: a file is there, expected a new or empty folder")
    if not settings.exists() and folder.is_dir() and not {each.name for each in folder.iterdir()} <= {LOCK}:
        raise ProgramError(f"{folder}: has other files but no {settings.name}, expected a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        yield


def keep_settings(paths: Paths, settings: Mapping[str, Any], *, by_default: Collection[str] = ()) -> None:
    """Write the settings by their options' names or, if something was trained, compare them with the file's.

    Options that an older file does not have are not compared, nor those ``by_default`` that are None in it. The run's
    own description is compared later.
    """
    file, begun = paths.settings, paths.is_begun or paths.features.is_begun or paths.left
    if not begun or not file.exists():
        write_text(file, json_text(dict(settings)))
        return
    try:
        there = read_json(file)
    except ProgramError as error:
        raise ProgramError(f"{error} (pass --force to start again)") from error
    said = [key for key in settings if key in there and not (key in by_default and there[key] is None)]
    different = [key for key in said if settings[key] != there[key]]
    if different:
        words = "; ".join(f"{key} was {_word(there[key])}, is {_word(settings[key])}" for key in different)
        raise ProgramError(f"{file.parent} was begun with other options: {words} ({OTHERWISE})")


def _word(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "not given" if value is None else str(value)


def check_goes_on(paths: Paths) -> None:
    """Check that a training that was begun can continue.

    Refuses a run folder that was moved, since its nets read the old place, and results without their run.
    """
    if not paths.is_begun:
        if left := paths.left:
            raise ProgramError(
                f"{paths.root}: found {some(left)} of a training, but its folder run is missing: {OTHERWISE}"
            )
        return
    folder = RunFolder.load(paths.run)
    if folder.data_folder.resolve() != paths.data.resolve():
        raise ProgramError(
            f"{paths.root} was moved or copied: its run reads {folder.data_folder}, expected {paths.data} (its model "
            f"can be used anywhere; to go on, move it back, or {OTHERWISE})"
        )


def remove_results(paths: Paths, needed: Iterable[Path]) -> None:
    """Delete the results of earlier calls, but keep converted weights and the settings, which mark the folder as ours.

    Refuses to delete a file that is ``needed``, or results of a run that is being trained.
    """
    for run in (paths.run, paths.features.run):
        if is_run_folder(run):
            check_unlocked(run)
    old = (*paths.results, paths.found, paths.run, paths.data, paths.features.root)
    for file in needed:
        if any(file.resolve().is_relative_to(path) for path in old):
            raise ProgramError(f"--weights {file}: --force deletes it: copy it to another folder")
    for path in old:
        remove(path)
