"""The training of an adaptation: the weights that it begins from, its run folder, and how long it takes."""

import re
from pathlib import Path

from latent_domains.adapt.adaptation import Adaptation
from latent_domains.adapt.folder import OTHERWISE
from latent_domains.common.caffe_process import ending, read_log, start
from latent_domains.common.files import expect_file, json_text, write_text
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.convert.torch.conversion import convert_once, converted_file, is_made_of
from latent_domains.data.published_file import in_package
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import BACKBONES, NETWORKS, at_hand, get_pretrained
from latent_domains.models.onnx_file import contents_sha256
from latent_domains.models.weights import read_layers
from latent_domains.networks.network import Network
from latent_domains.runs.devices import mode_of, requested_mode
from latent_domains.runs.lock import check_unlocked
from latent_domains.runs.preflight import preflight
from latent_domains.runs.provenance import check_same_images, check_same_weights
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_missing
from latent_domains.training.train import loaded_from, share_of_cores, train_all

FOLDER = ROOT / "data" / "weights"

NONE = "none"
"""The option's word for random weights."""

_AVERAGE = re.compile(r"Average Forward-Backward: (\S+) ms")


def weights_to_begin(adaptation: Adaptation, experiment: Experiment, *, begins: bool) -> Path | None:
    """Return the caffemodel that training begins with; None for random weights, or if training continues.

    Refuses to continue a training that began from other weights.
    """
    if not begins:
        folder = RunFolder.load(adaptation.paths.run)
        if folder.record_file.exists() or folder.latest_snapshot():
            check_begun(adaptation.weights, folder, adaptation.paths.weights)
            return None
    return starting_weights(adaptation.weights, experiment, adaptation.paths.weights)


def starting_weights(option: str | None, experiment: Experiment, converted: Path) -> Path | None:
    """Return the caffemodel that training starts with; None for random weights.

    ``option`` is a file, NONE, or None for the network's own, ImageNet's. A checkpoint of PyTorch or Lua Torch is
    converted to files in the folder ``converted``. A head on a backbone's features begins at random, and the backbone's
    package is checked.
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
    """Raise ProgramError if a run that continues began from other weights than ``option`` names now.

    Options are as in :func:`starting_weights`. A file that does not exist any more is not needed.
    """
    training = folder.read_training()
    if training is None or training.weights is None:
        return  # another option is refused before
    file = Path(option) if option else FOLDER / training.weights.file
    if not file.exists():
        print(
            f"note: {file} was removed, so it cannot be compared with the weights that the training started from",
            flush=True,
        )
        return
    if option:
        file = starting_weights(option, folder.experiment, converted)
    check_same_weights(folder, file, OTHERWISE)


def _of_imagenet(network: Network, experiment: Experiment) -> Path:
    """Fetch ImageNet's weights for a network to FOLDER. If they cannot be fetched, the error names the alternatives."""
    weights = at_hand(network.name, FOLDER)
    ready = FOLDER / weights.caffemodel(experiment.num_domains)
    if weights.converted and is_made_of(ready, FOLDER / weights.name, weights.file.hashes["sha256"]):
        return ready
    try:
        weights, file = get_pretrained(weights, FOLDER)
    except ProgramError as error:
        raise ProgramError(
            f"{error}\nOr pass other weights with --weights FILE, or random ones with --weights {NONE} (which need "
            "many more images)."
        ) from error
    return _converted(file, experiment, FOLDER / weights.name) if weights.converted else file


def _converted(checkpoint: Path, experiment: Experiment, out: Path) -> Path:
    """Return the caffemodel of a checkpoint that fits the experiment's nets, one of OUT's."""
    convert_once(NETWORKS[experiment.net.network], checkpoint, out, [experiment.num_domains])
    return converted_file(out, experiment.num_domains)


def open_run(adaptation: Adaptation, experiment: Experiment) -> RunFolder:
    """Write the run folder of the experiment or, if training continues, open it. Refuses one of another experiment."""
    paths = adaptation.paths
    if not (paths.is_begun and paths.dataset.is_file()):
        write_text(paths.dataset, json_text(experiment.data.to_json()))
    return write_missing(experiment, paths.run, data=paths.data, solver_mode=adaptation.solver_mode, remedy=OTHERWISE)


def train(adaptation: Adaptation, folder: RunFolder, weights: Path | None) -> None:
    """Train and evaluate; on a CPU, first say how long it takes."""
    snapshot, finished = folder.latest_snapshot(), folder.record_file.exists()
    mode, threads = requested_mode(adaptation.solver_mode) or mode_of(folder), adaptation.threads
    if snapshot or finished:
        check_same_images(folder, OTHERWISE)  # preflight would advise what write_run's users can do
    left = folder.experiment.recipe.iterations - (snapshot.iteration if snapshot else 0)
    if left and mode == "CPU" and not finished:
        check_unlocked(folder.path)
        preflight(folder, mode)  # its errors are clearer than those of caffe time
        if weights and not snapshot:
            loaded_from(folder, weights)
        threads = _say_duration(folder, left, threads)
    train_all([folder], threads=threads, resume=True, solver_mode=adaptation.solver_mode, weights=weights)


def _say_duration(folder: RunFolder, iterations: int, threads: int | None) -> int:
    """Print how long ``iterations`` take; return the number of threads to train with."""
    batch = sum(folder.batch_rows().values())
    print("measuring how long an iteration takes on this processor …", flush=True)
    threads, seconds = measure_iteration(folder, threads)
    whole = duration_text(estimate_seconds(folder, iterations, seconds))
    tests = ", with tests" if folder.test_nets else ""
    print(
        f"{seconds:.2g} s: about {whole} for {iterations} iterations of {batch} images{tests}. Ctrl-C stops with a "
        "snapshot, the same command goes on from it.",
        flush=True,
    )
    return threads


def measure_iteration(folder: RunFolder, threads: int | None) -> tuple[int, float]:
    """Return the number of threads (default: all cores) and the seconds of one training iteration by ``caffe time``."""
    threads, net = threads or share_of_cores(1), folder.net("train")
    with start(["time", "-model", str(net.resolve()), "-iterations", "3"], threads) as child:
        log = read_log(child)
    match = _AVERAGE.search(log)
    if child.returncode or not match:
        raise ProgramError(f"{net}: caffe time failed: {ending(child.returncode, log)}")
    return threads, float(match[1]) * folder.experiment.recipe.iter_size / 1000


def estimate_seconds(folder: RunFolder, iterations: int, seconds: float) -> float:
    """Estimate the seconds of a run's last ``iterations``, at ``seconds`` each, with tests and evaluation.

    A test is only a forward pass, which needs a third of an iteration's time for the same number of images.
    """
    tested = sum(batch_size * batches for batch_size, batches in folder.test_batches().values())
    tests = -(-iterations // folder.experiment.recipe.test_interval) + 1
    each = seconds / (folder.experiment.recipe.iter_size * sum(folder.batch_rows().values()))
    return iterations * seconds + tests * tested * each / 3


def duration_text(seconds: float) -> str:
    """Format a duration: 40 s, 25 min, 2 h 48 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
