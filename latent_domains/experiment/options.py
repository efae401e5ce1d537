"""The options that describe an experiment: those of the settings, and the dataset's."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from latent_domains.common.arguments import path, percentages
from latent_domains.experiment.datasets import DATASETS, find_dataset
from latent_domains.experiment.experiment import SETTINGS, Experiment, make_experiment
from latent_domains.experiment.recipe import Recipe

_OF_IMAGES = ("sources", "targets", "undivided", "shares", "network", "image_size", "test_mirror")
"""Settings that follow from the folders of the user's own images, and from the net that is trained on them."""

_METHOD = tuple(name for name in SETTINGS if name not in _OF_IMAGES)


def option_name(setting: str) -> str:
    """Return a setting's option on command lines."""
    return f"--{setting.replace('_', '-')}"


def add_experiment_options(
    parser: argparse.ArgumentParser, names: Iterable[str] = SETTINGS, dataset: str | None = "digits"
) -> None:
    """Add the options of a dataset (None: it must be given) and of the settings ``names``."""
    parser.add_argument(
        "--dataset",
        type=find_dataset,
        default=dataset,
        required=dataset is None,
        metavar=f"{{{','.join(DATASETS)},FILE}}",
        help="one of these, or the description of another one (dataset.json, by python -m tools.adapt, "
        "tools.extract_features or tools.import_features)" + (f"; default: {dataset}" if dataset else ""),
    )
    _add(parser, names, "the dataset's", {})


def add_method_options(parser: argparse.ArgumentParser, *, recipe: str, **defaults: str) -> None:
    """Add the options that do not depend on the dataset.

    In their help, the defaults of a recipe are called ``recipe``. ``defaults`` describes the defaults that the program
    itself chooses: such an option is None if it is not given.
    """
    _add(parser, _METHOD, recipe, defaults)


def _add(parser: argparse.ArgumentParser, names: Iterable[str], recipe: str, defaults: Mapping[str, str]) -> None:
    """Add the options of these settings; a missing option is None if its default depends on the dataset."""
    for name in names:
        setting, flags = SETTINGS[name], [option_name(name)]
        default, text = setting.default, setting.help.text
        if name in defaults or (setting.part is Recipe and default is None):
            default, text = None, f"{text.partition(' (default: ')[0]} (default: {defaults.get(name, recipe)})"
        elif default is not None and default is not False and default not in ((), ""):
            text += " (default: %(default)s)"
        if name == "targets":
            flags.append("--target")
        metavar = {"metavar": setting.help.metavar} if setting.help.metavar else {}
        reading = {"type": path} if name == "domains" else _reading(setting.type)
        parser.add_argument(*flags, default=None if default == "" else default, help=text, **reading, **metavar)


def _reading(kind: Any) -> dict[str, Any]:
    """Return how argparse reads a value of a setting's type."""
    kind = kind.__origin__ if get_origin(kind) is Annotated else kind
    if kind is bool:
        return {"action": "store_true"}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    if get_origin(kind) is tuple:
        return {"type": (lambda text: tuple(text.split("+"))) if get_args(kind)[0] is str else percentages}
    return {"type": kind}


def method_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of :func:`add_method_options`' options, by the names of :func:`make_experiment`."""
    return {name: getattr(options, name) for name in _METHOD}


def experiment_from_options(options: argparse.Namespace) -> Experiment:
    """Return the experiment that :func:`add_experiment_options`' options describe."""
    return make_experiment(options.dataset, **{name: getattr(options, name) for name in SETTINGS})
