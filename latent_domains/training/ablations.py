"""Ablations: changes of the digits' training that no setting says, and what the resizing of USPS does."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory

import caffe
import cv2
import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from google.protobuf import text_format
from numpy.typing import NDArray

from latent_domains.common.markdown import table
from latent_domains.common.program import ProgramError
from latent_domains.data.sets import usps
from latent_domains.experiment.experiment import SOURCE_ONLY, Experiment
from latent_domains.models.model import feed
from latent_domains.nets.blocks import STATISTIC
from latent_domains.runs.evaluate import last_snapshot
from latent_domains.runs.initial import draw_weights
from latent_domains.runs.record import Record
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all


def gaussian_classifier(net: NetParameter) -> None:
    """The domain classifier as in the authors' AlexNet and ResNet nets: gaussian 0.01, learning 10 and 20 times."""
    (classifier,) = (layer for layer in net.layer if layer.name == "domain_fc4")
    classifier.inner_product_param.weight_filler.type = "gaussian"
    classifier.inner_product_param.weight_filler.std = 0.01
    for param, lr_mult in zip(classifier.param, (10, 20), strict=False):
        param.lr_mult = lr_mult


def branch_from_normalised(net: NetParameter) -> None:
    """The branch starts from conv1 after one plain BN over all domains, as in the paper's ResNet."""
    layers = list(net.layer)
    at = next(i for i, layer in enumerate(layers) if layer.name == "conv1") + 1
    norm = LayerParameter(name="domain_bn1", type="BatchNorm", bottom=["conv1"], top=["domain_bn1"])
    for _ in range(3):
        norm.param.add(**STATISTIC)
    for layer in layers[at:]:
        if layer.name.startswith(("stem_", "domain_")) and layer.bottom[0] == "conv1":
            layer.bottom[0] = "domain_bn1"
    del net.layer[:]
    net.layer.extend([*layers[:at], norm, *layers[at:]])


VARIANTS: dict[str, Callable[[NetParameter], None]] = {
    "as it is": lambda net: None,
    "domain classifier gaussian 0.01, lr ×10/20": gaussian_classifier,
    "branch from conv1 + BN": branch_from_normalised,
}
"""What is changed in the nets of the digits in which there is a branch."""


def ablate(variant: str, experiment: Experiment, data: Path) -> Record:
    """Train and evaluate an experiment of mDA on the digits, its nets changed by one of VARIANTS."""
    if experiment.data.network != "mnist" or not experiment.has_branch:
        raise ProgramError(
            f"{experiment.method} on {experiment.data.network}, expected mda on mnist, in whose branch the variants are"
        )
    with TemporaryDirectory() as scratch:
        folder = write_run(experiment, Path(scratch) / "run", data=data)
        for name in ("train", "domains"):
            net = folder.read_net(name)
            VARIANTS[variant](net)
            folder.net(name).write_text(text_format.MessageToString(net))
        with_input = (folder.net(name).read_text() for name in ("deploy", "domains"))
        draw_weights(with_input, experiment.seed, folder.initial)
        train_all([folder], threads=1)
        return folder.read_record()


def table_of_variants(records: Mapping[str, Record]) -> str:
    """The records of variants, a line each: how the domains were used at the end, and the accuracy."""
    rows = []
    for variant, record in records.items():
        usage = record.domain_usage
        rows.append(
            [
                variant,
                f"{100 * max(usage.share):.0f}",
                *(f"{value:.2f}" for value in (usage.purity, usage.nmi, usage.nmi_classes)),
                f"{100 * record.accuracy:.1f}",
            ]
        )
    header = ["variant", "largest share (%)", "purity", "NMI", "NMI with classes", "target accuracy (%)"]
    return table(header, rows)


WAYS: dict[str, dict[str, int]] = {
    "bilinear (ours)": {},
    "bicubic": {"interpolation": cv2.INTER_CUBIC},
    "nearest": {"interpolation": cv2.INTER_NEAREST},
    "bilinear, margin 1": {"margin": 1},
    "bilinear, margin 2": {"margin": 2},
    "bilinear, margin 3": {"margin": 3},
    "bilinear, margin 4 as MNIST": {"margin": 4},
}
"""Arguments of :func:`latent_domains.data.sets.usps.resize`; MNIST's digits lie in the inner 20×20 pixels."""


def accuracies(folder: RunFolder, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> dict[str, float]:
    """Accuracy of a run's last iteration on USPS images (n×16×16) with ``labels`` (n), by the way they are resized.

    Raises ProgramError if the run is not of the digits, saw the target in training or is not finished.
    """
    experiment = folder.experiment
    if experiment.dataset != "digits" or experiment.method not in SOURCE_ONLY:
        raise ProgramError(
            f"{folder.path}: {experiment.method} on {experiment.dataset}, expected source_only or plain on digits: "
            "the other methods were trained on resized target images"
        )
    net = folder.load_net("deploy", caffe.TEST, last_snapshot(folder).model)
    found = {}
    for way, arguments in WAYS.items():
        resized = usps.resize(images, **arguments)
        inputs = experiment.data.preprocessing.inputs(list(np.repeat(resized[:, np.newaxis], 3, axis=1)))
        feed(net, inputs)
        (scores,) = net.forward().values()
        found[way] = float((scores.reshape(len(labels), -1).argmax(axis=1) == labels).mean())
    return found


def table_of_resizing(settings: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Accuracies by the way of resizing: mean and standard deviation over the runs of each setting."""
    rows = []
    for way in WAYS:
        columns = [[100 * found[way] for found in runs] for runs in settings.values()]
        rows.append([way, *(f"{mean(c):.1f}" + (f" ± {stdev(c):.1f}" if len(c) > 1 else "") for c in columns)])
    header = [f"{name.removesuffix('_seed0')} (n = {len(runs)})" for name, runs in settings.items()]
    return table(["USPS resized", *header], rows)
