"""Ablations: what each part of the paper's setting does to the latent domains, and what the resizing of USPS does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import caffe
import cv2
import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from google.protobuf import text_format
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.markdown import table
from latent_domains.common.program import ProgramError
from latent_domains.data.sets import usps
from latent_domains.experiment.experiment import SOURCE_ONLY, Experiment
from latent_domains.runs.domain_usage import domain_usage
from latent_domains.runs.evaluate import last_snapshot
from latent_domains.runs.preflight import preflight
from latent_domains.runs.run_folder import RunFolder, with_whole_names
from latent_domains.runs.write import write_run

WATCHED = (0, 5, 10, 20, 50, 100, 200, 300, 400, 500, 750, 1000, 1500, 2000)
"""Iterations at which the assignments are looked at, and the last one."""


@dataclass(frozen=True)
class Variant:
    """The paper's setting with something changed: options of the experiment, and edits of the training net."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    edits: tuple[Callable[[NetParameter], None], ...] = ()


def layer(net: NetParameter, name: str) -> LayerParameter:
    return next(layer for layer in net.layer if layer.name == name)


def block_gradient_through_w(net: NetParameter) -> None:
    """The branch learns from its own losses only: no mDA layer sends a gradient to w."""
    for mda in net.layer:
        if mda.type == "Python" and mda.python_param.layer == "MDALayer":
            mda.propagate_down.extend([True, False])


def gaussian_classifier(net: NetParameter) -> None:
    """The domain classifier as in the authors' AlexNet and ResNet nets: gaussian 0.01, learning 10 and 20 times."""
    classifier = layer(net, "domain_fc4")
    classifier.inner_product_param.weight_filler.type = "gaussian"
    classifier.inner_product_param.weight_filler.std = 0.01
    for param, lr_mult in zip(classifier.param, (10, 20), strict=True):
        param.lr_mult = lr_mult


def branch_from_normalised(net: NetParameter) -> None:
    """The branch starts from conv1 after one plain BN over all domains, as in the paper's ResNet."""
    at = next(i for i, candidate in enumerate(net.layer) if candidate.name == "stem_source")
    norm = LayerParameter(name="domain_bn1", type="BatchNorm", bottom=["conv1"], top=["domain_bn1"])
    for _ in range(3):
        norm.param.add(lr_mult=0, decay_mult=0)
    layers = list(net.layer)
    layers[at].bottom[0] = "domain_bn1"
    del net.layer[:]
    net.layer.extend([*layers[:at], norm, *layers[at:]])


VARIANTS = (
    Variant("paper"),
    Variant("no domain entropy (λ_D = 0)", {"lambda_d": 0.0}),
    Variant("no gradient through w", {}, (block_gradient_through_w,)),
    Variant("no gradient through w, λ_D = 0: as initialised", {"lambda_d": 0.0}, (block_gradient_through_w,)),
    Variant("domain classifier gaussian 0.01, lr ×10/20", {}, (gaussian_classifier,)),
    Variant("branch from conv1 + BN", {}, (branch_from_normalised,)),
    Variant("balance λ_b = 0.5", {"lambda_b": 0.5}),
    Variant(
        "balance λ_b = 0.5, branch from conv1 + BN, no gradient through w",
        {"lambda_b": 0.5},
        (branch_from_normalised, block_gradient_through_w),
    ),
    Variant("5 % of the domain labels known", {"known_share": 0.05}),
)


def ablate(variant: Variant, experiment: Experiment, data: Path) -> dict[str, Any]:
    """Train one variant in this process and return its assignments along the iterations and its accuracy."""
    with TemporaryDirectory() as scratch:
        folder = write_run(experiment, Path(scratch) / "run", data=data)
        preflight(folder)
        for name in ("train", *experiment.tests):
            net = with_whole_names(folder.read_net(name))
            for edit in variant.edits if name == "train" else ():
                edit(net)
            folder.net(name).write_text(text_format.MessageToString(net))
        solver = caffe.SGDSolver(str(folder.solver))
        watched = {}
        for iteration in tqdm(range(experiment.iterations), desc=variant.name):
            solver.step(1)  # assignments of this iteration's batch are those of the weights before its update
            if iteration in WATCHED:
                watched[iteration] = batch_usage(solver.net, experiment)
        accuracy = target_accuracy(solver, folder)
        solver.net.forward()
        watched[experiment.iterations] = batch_usage(solver.net, experiment)
    return {
        "variant": variant.name,
        "experiment": experiment.to_json(),
        "usage_of_batches": watched,
        "accuracy": accuracy,
    }


def table_of_variants(results: Sequence[dict[str, Any]]) -> str:
    """What :func:`ablate` returned, a line each: largest shares along the iterations, and how it ended."""
    rows = []
    for result in results:
        usages = list(result["usage_of_batches"].values())
        rows.append(
            [
                result["variant"],
                str(result["experiment"]["seed"]),
                " ".join(f"{100 * max(usage['share']):.0f}" for usage in usages),
                *(f"{usages[-1][key]:.2f}" for key in ("purity", "nmi", "nmi_classes")),
                f"{100 * result['accuracy']:.1f}",
            ]
        )
    shares = f"largest share (%) at {' '.join(map(str, results[0]['usage_of_batches']))}"
    return table(["variant", "seed", shares, "purity", "NMI", "NMI with classes", "target accuracy (%)"], rows)


def batch_usage(net: caffe.Net, experiment: Experiment) -> dict[str, Any]:
    """Domain usage on the training batch that went through the net last, by the branch's own predictions."""
    logits = net.blobs["domain_fc4"].data.astype(np.float64)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    size = experiment.batch_size
    classes = net.blobs["label"].data.astype(int)
    rows = {source: slice(i * size, (i + 1) * size) for i, source in enumerate(experiment.sources)}
    return domain_usage(
        {source: probabilities[chosen] for source, chosen in rows.items()},
        {source: classes[chosen] for source, chosen in rows.items()},
    ).to_json()


def target_accuracy(solver: caffe.SGDSolver, folder: RunFolder) -> float:
    """Accuracy on the target's test images with the solver's present weights."""
    test = solver.test_nets[0]
    test.share_with(solver.net)
    ((_, batches),) = folder.test_batches().values()
    return float(np.mean([float(test.forward()["accuracy"]) for _ in range(batches)]))


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
        net.blobs["data"].reshape(*inputs.shape)
        net.blobs["data"].data[...] = inputs
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
