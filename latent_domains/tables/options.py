"""Options of programs that name a table, and the values of ``snakemake --config``."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from latent_domains.common.arguments import add_data_option, natural, path, positive
from latent_domains.common.validation import Positive, checked
from latent_domains.tables.definition import EXPERIMENTS


def definition_file(name: str) -> Path:
    """Return the file that defines a table, from its name in experiments/ or a path."""
    return path(name) if name.endswith(".yaml") else EXPERIMENTS / f"{name}.yaml"


def seed_list(text: str) -> tuple[int, ...]:
    """Read the value of ``--seeds``: 0,1,2."""
    return tuple(natural(part.strip()) for part in text.split(","))


def add_choice_options(parser: ArgumentParser) -> None:
    """Add the options that select some of a table's runs, or shorter ones."""
    parser.add_argument("--seeds", type=seed_list, metavar="N,N,…", help="only these seeds (default: the table's)")
    parser.add_argument(
        "--iterations", type=positive, metavar="N", help="only runs of N iterations (default: the recipe's)"
    )
    add_data_option(parser)


def _folder(text: str) -> str:
    if {"{", "}"}.intersection(text):
        raise ArgumentTypeError(f"got {text!r}, expected no braces: Snakemake reads them as placeholders")
    return str(path(text))


def _images(text: str) -> str:
    if not path(text).is_dir():
        raise ArgumentTypeError(f"got {text!r}, expected a folder, a set's unpacked archive")
    return str(path(text))


def _as(read: Callable[[str], Any]) -> BeforeValidator:
    """Return a validator that reads a value, or a list in a file, as a program reads an option."""

    def value(found: Any) -> Any:
        try:
            return read(",".join(map(str, found)) if isinstance(found, list) else str(found))
        except ArgumentTypeError as error:
            raise ValueError(str(error).replace("got", "found", 1)) from error

    return BeforeValidator(value)


Folder = Annotated[Path, _as(_folder)]


@dataclass(frozen=True)
class Config:
    """The choices in a call of the workflow; :meth:`read` checks them."""

    seeds: Annotated[tuple[int, ...], _as(seed_list)] | None = None
    iterations: Positive | None = None
    images: Annotated[str, _as(_images)] | None = None
    """Folder of the unpacked archive of the requested image set."""
    weights: Literal["none"] | None = None
    """ "none": begin at random; None: with ImageNet's in DATA/weights."""
    solver_mode: Literal["CPU", "GPU"] | None = None
    data: Folder = Path("data")
    runs: Folder = Path("runs")
    experiments: Folder = EXPERIMENTS
    threads: Positive = 1

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "Config":
        """Return the values in Snakemake's ``config``."""
        return checked(cls, {key: value for key, value in config.items() if value is not None}, "--config")

    @property
    def choices(self) -> list[str]:
        """Return the options of programs that name a table: the data folder, and the selected runs."""
        seeds = ["--seeds", ",".join(map(str, self.seeds))] if self.seeds else []
        iterations = ["--iterations", str(self.iterations)] if self.iterations else []
        return ["--data", str(self.data), *seeds, *iterations]

    @property
    def mode(self) -> list[str]:
        """Return the option of programs that compute with Caffe."""
        return ["--solver-mode", self.solver_mode] if self.solver_mode else []
