"""What training begins with: a caffemodel that is named, or ImageNet's weights, fetched and converted once."""

from pathlib import Path

from latent_domains.adapt.programs import program
from latent_domains.common.files import expect_file
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data.sets.urls import WEIGHTS
from latent_domains.data.weights_files import find_in_mirror, get
from latent_domains.experiment.experiment import Experiment

FOLDER = ROOT / "data" / "weights"

NONE = "none"
"""The option's word for random weights."""


def starting_weights(option: str | None, experiment: Experiment, converted: Path) -> Path | None:
    """The caffemodel that training begins with, None for random weights.

    ``option`` is a file, NONE, or None for the network's own: ImageNet's for AlexNet and ResNet18. A ResNet18 of
    PyTorch or Lua Torch is converted, to files whose names begin with ``converted``. Raises ProgramError if the file
    is missing or cannot be had.
    """
    network = experiment.data.network
    if option == NONE or (option is None and network == "mnist"):
        return None
    if option is None:
        return _of_imagenet(network, experiment)
    file = Path(option)
    expect_file(file, "weights to begin with, or none")
    if file.suffix == ".caffemodel":
        return file
    if network != "resnet18":
        raise ProgramError(f"--weights {file}: expected a caffemodel for {network}")
    return _converted(file, experiment, converted)


def _of_imagenet(network: str, experiment: Experiment) -> Path:
    """ImageNet's weights for a network, in FOLDER. Raises ProgramError, saying what else can be done."""
    name = "resnet18" if network == "resnet18" else "alexnet"
    ready = FOLDER / WEIGHTS[name].name
    if network == "resnet18" and _file_of(FOLDER / "resnet18", experiment).is_file():
        return _file_of(FOLDER / "resnet18", experiment)
    try:
        ready = get(WEIGHTS[name], FOLDER, find_in_mirror(WEIGHTS[name], None))
    except ProgramError as error:
        raise ProgramError(
            f"{error}\nOr name other weights by --weights FILE, or train from random ones by --weights {NONE} (which "
            "takes many more images)."
        ) from error
    return ready if network == "alexnet" else _converted(ready, experiment, FOLDER / "resnet18")


def _converted(checkpoint: Path, experiment: Experiment, prefix: Path) -> Path:
    """The caffemodel of a checkpoint that fits the experiment's nets; it is converted unless that was done before."""
    file = _file_of(prefix, experiment)
    if not file.is_file() or file.stat().st_mtime < checkpoint.stat().st_mtime:
        domains = ("--num-domains", experiment.num_domains) if experiment.sees_target else ("--no-mda",)
        program("convert_resnet18", checkpoint, prefix, *domains, "--no-head", "--force")
    return file


def _file_of(prefix: Path, experiment: Experiment) -> Path:
    """Which of the files of ``tools.convert_resnet18`` fits: mDA nets need one for their number of domains."""
    suffix = f"_mda{experiment.num_domains}" if experiment.sees_target else ""
    return prefix.with_name(f"{prefix.name}{suffix}.caffemodel")
