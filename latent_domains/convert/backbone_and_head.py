"""One net from picture to class: a backbone and, on it, the head that a run has trained on its features."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import caffe
import cv2
import numpy as np
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fold.verify import same_best
from latent_domains.convert.torch.backbone import backbone, get_weights
from latent_domains.data.input_batches import batches
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.lmdb_io import read_images, record_names
from latent_domains.data.preprocessing import Preprocessing
from latent_domains.experiment.datasets import input_of
from latent_domains.experiment.networks import BACKBONES, NETWORKS
from latent_domains.models.compare import TOLERANCE
from latent_domains.models.model import Array, Model, forward
from latent_domains.models.onnx_file import Runtime
from latent_domains.networks.network import Network
from latent_domains.runs.run_folder import RunFolder

PICTURES = 16
"""Pictures of each target on which a net is compared with the head on stored features."""


def is_head(run: RunFolder) -> bool:
    """Say whether a run's nets read the features of an installed backbone."""
    features = run.experiment.data.features
    return features is not None and features.backbone in BACKBONES


def backbone_of(run: RunFolder) -> Network:
    """Return the backbone whose features a run's nets read."""
    return NETWORKS[run.experiment.data.features.backbone]


def picture_input(run: RunFolder) -> Preprocessing:
    """Return the input of the backbone: the scale of its pixels is in its first convolution."""
    return replace(input_of(backbone_of(run)), scale=1.0)


def picture_net(run: RunFolder, head: Model) -> Model:
    """Return the backbone's net with ``head``, the run's deploy net, instead of its own.

    Refuses a head on other features, or on statistics of early blocks, which no layer makes.
    """
    data, network = run.experiment.data, backbone_of(run)
    whole, pooled = backbone(network, get_weights(network)[1]), network.torch.pooled
    if (size := data.shape[0] - data.early) != network.torch.features:
        raise ProgramError(
            f"{run.path}: takes {size} features, expected the {network.torch.features} of {network.name}"
        )
    net = NetParameter(name=head.net.name, layer=whole.net.layer)
    renamed, early = ({}, set()) if data.early else ({"data": pooled}, set())
    for layer in head.net.layer:
        if layer.type == "Slice" and list(layer.bottom) == ["data"]:
            renamed[layer.top[0]] = pooled
            early.add(layer.top[1])
        elif layer.type != "Input" and not (layer.type == "Silence" and early.issuperset(layer.bottom)):
            if early.intersection(layer.bottom):
                raise ProgramError(
                    f"{run.path}: layer {layer.name} reads statistics of early blocks to tell target domains apart: "
                    "no stock layer makes them"
                )
            new = net.layer.add()
            new.CopyFrom(layer)
            for blobs in (new.bottom, new.top):
                blobs[:] = [renamed.get(name, name) for name in blobs]
    return Model(net, {**whole.blobs, **head.blobs})


def check_onnx(run: RunFolder, weights: Path, file: Path) -> None:
    """Run :func:`check_on_pictures` with an ONNX file, in ONNX Runtime and in OpenCV."""
    runtime, opencv = Runtime(str(file)), cv2.dnn.readNetFromONNX(str(file))
    (name,), (output,) = runtime.inputs, runtime.outputs

    def in_opencv(rows: Array) -> Array:
        opencv.setInput(rows)
        return opencv.forward()

    check_on_pictures(run, weights, lambda rows: runtime.forward({name: rows})[output], "ONNX Runtime")
    check_on_pictures(run, weights, in_opencv, f"OpenCV {cv2.__version__}")


def check_on_pictures(run: RunFolder, weights: Path, classify: Callable[[Array], Array], engine: str) -> None:
    """Compare a net's answers on pictures with those of the run's own net, with ``weights``, on their stored features.

    The pictures are the first PICTURES of each target; without their LMDBs nothing is compared. Prints the result.
    Refuses a net with another best class, or with a probability that differs by more than TOLERANCE.
    """
    experiment, data = run.experiment, run.experiment.data
    net = run.load_net("deploy", caffe.TEST, weights)
    for target in experiment.targets:
        stored = run.data_folder / data.test_lmdb(target)
        pictures = run.data_folder / data.images / stored.name
        if not (is_lmdb(stored) and is_lmdb(pictures)):
            print(f"note: {pictures} and {stored} are not there: {engine} was not compared on pictures")
            continue
        if list(record_names(stored)) != list(record_names(pictures)):
            raise ProgramError(f"{stored}: features of other pictures than those in {pictures}")
        rows, _ = next(batches(stored, data.preprocessing, PICTURES, PICTURES))
        expected = forward(net, rows)["prob"]
        images, _ = read_images(pictures, PICTURES)
        found = classify(picture_input(run).inputs(images)).reshape(expected.shape)
        same, furthest = int(same_best(expected, found).sum()), float(np.abs(found - expected).max())
        said = (
            f"{engine}, from picture to class: top-1 of {same} of {len(rows)} pictures of {target} as by the run on "
            f"their stored features, probabilities {furthest:.1e} off"
        )
        if same < len(rows) or not furthest <= TOLERANCE:
            raise ProgramError(f"{said}, expected all of them and at most {TOLERANCE:g}; this net is not written")
        print(said)
