"""The options of programs that name a table, and how its name finds its file."""

import argparse
from pathlib import Path

from latent_domains.common.arguments import add_data_option, natural, path, positive
from latent_domains.tables.definition import EXPERIMENTS


def definition_file(name: str) -> Path:
    """The file that defines a table: a name of experiments/ or a path."""
    return path(name) if name.endswith(".yaml") else EXPERIMENTS / f"{name}.yaml"


def seed_list(text: str) -> tuple[int, ...]:
    """The value of ``--seeds``: 0,1,2."""
    return tuple(natural(part.strip()) for part in text.split(","))


def add_choice_options(parser: argparse.ArgumentParser) -> None:
    """The options that choose a part of a table's runs, or shorter ones."""
    parser.add_argument("--seeds", type=seed_list, metavar="N,N,…", help="these seeds (default: the table's)")
    parser.add_argument("--iterations", type=positive, metavar="N", help="runs of N iterations (default: the recipe's)")
    add_data_option(parser)
