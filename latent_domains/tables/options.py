"""Options of programs that name a table, and the values of ``snakemake --config``."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from latent_domains.common.arguments import add_data_option, natural, path, positive
from latent_domains.common.validation import Positive, checked
from latent_domains.tables.definition import EXPERIMENTS


def definition_file(name: str) -> Path:
    """The file that defines a table: a name of experiments/ or a path."""
    return path(name) if name.endswith(".yaml") else EXPERIMENTS / f"{name}.yaml"


def seed_list(text: str) -> tuple[int, ...]:
    """The value of ``--seeds``: 0,1,2."""
    return tuple(natural(part.strip()) for part in text.split(","))


def add_choice_options(parser: ArgumentParser) -> None:
    """The options that choose a part of a table's runs, or shorter ones."""
    parser.add_argument("--seeds", type=seed_list, metavar="N,N,…", help="these seeds (default: the table's)")
    parser.add_argument("--iterations", type=positive, metavar="N", help="runs of N iterations (default: the recipe's)")
    add_data_option(parser)


def _seeds(found: Any) -> tuple[int, ...]:
    """0,1,2 on a command line, or a list in a file."""
    try:
        return seed_list(",".join(map(str, found)) if isinstance(found, list) else str(found))
    except ArgumentTypeError as error:
        raise ValueError(f"found {found!r}, expected seeds such as 0,1,2") from error


def _path(found: str) -> str:
    try:
        return str(path(found))
    except ArgumentTypeError as error:
        raise ValueError(str(error).replace("got", "found", 1)) from error


def _folder(found: str) -> str:
    if {"{", "}"}.intersection(found):
        raise ValueError(f"found {found!r}, expected no braces, between which Snakemake reads names of its own")
    return _path(found)


def _images(found: str) -> str:
    found = _path(found)
    if not Path(found).is_dir():
        raise ValueError(f"found {found!r}, expected a folder, a set's unpacked archive")
    return found


Folder = Annotated[Path, BeforeValidator(_folder)]


@dataclass(frozen=True)
class Config:
    """What a call of the workflow chooses; :meth:`read` checks it."""

    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)] | None = None
    iterations: Positive | None = None
    images: Annotated[str, AfterValidator(_images)] | None = None
    """Folder of the unpacked archive of whichever image set is wanted."""
    weights: Literal["none"] | None = None
    """ "none": begin at random; None: with ImageNet's in DATA/weights."""
    solver_mode: Literal["CPU", "GPU"] | None = None
    data: Folder = Path("data")
    runs: Folder = Path("runs")
    experiments: Folder = EXPERIMENTS
    threads: Positive = 1

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "Config":
        """The values that Snakemake's ``config`` holds. Raises ProgramError naming the key that is wrong."""
        return checked(cls, {key: value for key, value in config.items() if value is not None}, "--config")

    @property
    def choices(self) -> list[str]:
        """The options of programs that name a table: the folder of data, and which of the table's runs are meant."""
        seeds = ["--seeds", ",".join(map(str, self.seeds))] if self.seeds else []
        iterations = ["--iterations", str(self.iterations)] if self.iterations else []
        return ["--data", str(self.data), *seeds, *iterations]

    @property
    def mode(self) -> list[str]:
        """The option of programs that compute with Caffe."""
        return ["--solver-mode", self.solver_mode] if self.solver_mode else []
