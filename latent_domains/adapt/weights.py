"""What training begins with: a caffemodel that is named, or ImageNet's weights, fetched and converted once."""

from pathlib import Path

from latent_domains.adapt.settings import OTHERWISE
from latent_domains.common.files import expect_file
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.convert.torch.conversion import converted_file
from latent_domains.convert.torch.converted import convert_once, is_made_of
from latent_domains.data.published_file import in_package
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import BACKBONES, NETWORKS, at_hand, get_pretrained
from latent_domains.models.onnx_file import contents_sha256
from latent_domains.models.weights import read_layers
from latent_domains.networks.network import Network
from latent_domains.runs.provenance import check_same_weights
from latent_domains.runs.run_folder import RunFolder

FOLDER = ROOT / "data" / "weights"

NONE = "none"
"""The option's word for random weights."""


def starting_weights(option: str | None, experiment: Experiment, converted: Path) -> Path | None:
    """Return the caffemodel that training starts with; None for random weights.

    ``option`` is a file, NONE, or None for the network's own, ImageNet's. A checkpoint of PyTorch or Lua Torch is
    converted to files in the folder ``converted``. A head on a backbone's features begins at random, and the backbone's
    package is looked at. Raises ProgramError if a file is missing, another one, or cannot be had.
    """
    if features := experiment.data.features:
        if option is not None:
            raise ProgramError(
                f"--weights {option}: the features of {features.backbone} are those of its own weights, which its "
                "Python package brings: leave the option out, or choose a --network that is fine-tuned"
            )
        in_package(BACKBONES[features.backbone])
        return None
    network = NETWORKS[experiment.net.network]
    if option == NONE or (option is None and not network.weights):
        return None
    if option is None:
        return _of_imagenet(network, experiment)
    file = Path(option)
    expect_file(file, "weights to begin with, or none")
    if file.suffix == ".caffemodel":
        for _ in read_layers(file):  # training looks whether they fit
            break
        return file
    if not any(weights.converted for weights in network.weights):
        raise ProgramError(f"--weights {file}: expected a caffemodel for {network.name}")
    return _converted(file, experiment, converted / contents_sha256(file)[:8] / network.name)


def check_begun(option: str | None, folder: RunFolder, converted: Path) -> None:
    """Raise ProgramError if a run that goes on began from other weights than ``option`` names now.

    Options are as of :func:`starting_weights`. A file that is no longer there is not needed.
    """
    training = folder.read_training()
    if training is None or training.weights is None:
        return  # another option is refused before
    file = Path(option) if option else FOLDER / training.weights.file
    if not file.exists():
        print(f"note: {file} is no longer there, so it is not compared with what the training began from", flush=True)
        return
    if option:
        file = starting_weights(option, folder.experiment, converted)
    check_same_weights(folder, file, OTHERWISE)


def _of_imagenet(network: Network, experiment: Experiment) -> Path:
    """Fetch ImageNet's weights for a network to FOLDER. Raises ProgramError that names the alternatives."""
    weights = at_hand(network.name, FOLDER)
    ready = FOLDER / weights.caffemodel(experiment.num_domains)
    if weights.converted and is_made_of(ready, FOLDER / weights.name, weights.file.hashes["sha256"]):
        return ready
    try:
        weights, file = get_pretrained(weights, FOLDER)
    except ProgramError as error:
        raise ProgramError(
            f"{error}\nOr name other weights by --weights FILE, or train from random ones by --weights {NONE} (which "
            "takes many more images)."
        ) from error
    return _converted(file, experiment, FOLDER / weights.name) if weights.converted else file


def _converted(checkpoint: Path, experiment: Experiment, out: Path) -> Path:
    """The caffemodel of a checkpoint that fits the experiment's nets, one of OUT's."""
    number = experiment.num_domains
    convert_once(NETWORKS[experiment.net.network], checkpoint, out, [number])
    return converted_file(out, number)
