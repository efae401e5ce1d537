"""What training begins with: a caffemodel that is named, or ImageNet's weights, fetched and converted once."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from latent_domains.common.files import expect_file, json_text, read_json, sha256, write_text
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.common.validation import checked
from latent_domains.convert.torch.conversion import convert_checkpoint, converted_file, is_converted
from latent_domains.data.published_file import in_package
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import BACKBONES, NETWORKS, Network
from latent_domains.experiment.pretrained import at_hand, get_pretrained
from latent_domains.models.onnx_file import contents_sha256
from latent_domains.models.weights import read_layers
from latent_domains.runs.contents import check_same_weights
from latent_domains.runs.run_folder import RunFolder

FOLDER = ROOT / "data" / "weights"

NONE = "none"
"""The option's word for random weights."""


@dataclass(frozen=True)
class _Converted:
    """What is known of a caffemodel: its hash, and that of the checkpoint that it was made of."""

    sha256: str
    checkpoint: str


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
    check_same_weights(folder, file, "choose another --out, or pass --force to begin anew")


def _of_imagenet(network: Network, experiment: Experiment) -> Path:
    """Fetch ImageNet's weights for a network to FOLDER. Raises ProgramError that names the alternatives."""
    weights = at_hand(network.name, FOLDER)
    ready = FOLDER / weights.caffemodel(experiment.num_domains)
    if weights.converted:
        known = _is_made_of(ready, FOLDER / weights.name, weights.file.hashes["sha256"])
        if known is None:
            print(f"note: {ready}: no note says what it was made of, so it is taken for {weights.title}", flush=True)
        if known is not False:
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


def convert_once(
    network: Network, checkpoint: Path, out: Path, num_domains: Sequence[int], *, force: bool = False
) -> None:
    """Convert a checkpoint to caffemodels of these numbers (0: without mDA), unless they are there as OUT's.

    A note beside them has their hashes and the checkpoint's. Raises ProgramError if one was changed since and ``force``
    does not allow to replace it. Of those that an earlier version made, which has left no note, the times are compared.
    """
    of = contents_sha256(checkpoint)
    files = {number: converted_file(out, number) for number in {0, *num_domains}}
    made = {number: _is_made_of(file, out, of, force=force) for number, file in files.items()}
    unknown = [number for number in num_domains if made[number] is None]
    if False in map(made.get, num_domains) or not is_converted(checkpoint, out, unknown):
        convert_checkpoint(network, checkpoint, out, [number for number in num_domains if number])
        unknown = list(files)
    elif unknown:
        print(f"note: an earlier version made the caffemodels of {out}; from now on their contents are compared")
    if unknown:
        ours = {files[number].name: _Converted(sha256(files[number]), of) for number in unknown}
        with suppress(OSError):  # of a folder that is only read
            write_text(_note(out), json_text({name: asdict(one) for name, one in {**_noted(out), **ours}.items()}))


def _note(out: Path) -> Path:
    return out.with_name(f"{out.name}.converted.json")


def _noted(out: Path) -> dict[str, _Converted]:
    """What the note says of OUT's caffemodels, by their names."""
    note = _note(out)
    return checked(dict[str, _Converted], read_json(note), str(note)) if note.is_file() else {}


def _is_made_of(file: Path, out: Path, checkpoint: str, *, force: bool = False) -> bool | None:
    """Whether one of OUT's caffemodels was made of the checkpoint of this hash; None if it is there and none says so.

    Raises ProgramError if it was changed since; with ``force`` it was not made of it then.
    """
    if not file.is_file():
        return False
    noted = _noted(out).get(file.name)
    if noted is None:
        return None
    if noted.sha256 != (found := sha256(file)):
        if force:
            return False
        raise ProgramError(
            f"{file}: sha256 {found}, expected {noted.sha256} as when it was converted: remove it, or pass --force of "
            "tools.get_weights"
        )
    return noted.checkpoint == checkpoint
