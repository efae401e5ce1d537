"""The folder that a call fills."""

from dataclasses import dataclass
from pathlib import Path

from latent_domains.adapt.trees import plain_name
from latent_domains.models.model import model_files
from latent_domains.runs.model_description import description_file


@dataclass(frozen=True)
class Paths:
    """Names of what the folder holds."""

    root: Path

    @property
    def name(self) -> str:
        """The task's name, that of the folder."""
        return plain_name(self.root)

    @property
    def settings(self) -> Path:
        """What was asked for; it makes a folder one of these."""
        return self.root / "settings.json"

    @property
    def data(self) -> Path:
        """The data folder, as every program takes one."""
        return self.root / "data"

    @property
    def lmdbs(self) -> Path:
        """An LMDB for each domain, in the data folder under the task's name."""
        return self.data / self.name

    @property
    def dataset(self) -> Path:
        """The dataset's description, for other experiments on the same LMDBs."""
        return self.lmdbs / "dataset.json"

    @property
    def run(self) -> Path:
        """The run folder: nets, solver, log, snapshots, record."""
        return self.root / "run"

    @property
    def weights(self) -> Path:
        """The folder of converted weights."""
        return self.root / "weights"

    @property
    def model(self) -> Path:
        """What the names of the folded model's files begin with."""
        return self.root / "model"

    @property
    def model_files(self) -> tuple[Path, Path, Path]:
        """The folded model's net, weights and description."""
        return (*model_files(self.model), description_file(self.model))

    @property
    def predictions(self) -> Path:
        return self.root / "predictions.csv"

    @property
    def domains(self) -> Path:
        return self.root / "domains.csv"

    @property
    def report(self) -> Path:
        return self.root / "report.html"

    @property
    def readme(self) -> Path:
        return self.root / "README.txt"
