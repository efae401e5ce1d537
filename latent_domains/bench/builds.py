"""Two builds of Caffe beside each other: every layer of a net alone, on the same random numbers."""

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import caffe
import numpy as np
from caffe.proto import caffe_pb2
from tqdm import tqdm

from latent_domains.bench.training import with_data_in_memory
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some
from latent_domains.experiment.datasets import DATASETS
from latent_domains.models.compare import Difference, differences, worst
from latent_domains.models.gate import read_net
from latent_domains.models.model import check_definition, open_net

NO_COMPUTATION = ("Input", "DummyData", "Silence", "Python")
"""Layers that are left out: Caffe itself computes nothing in them."""

_JUDGES = ("Accuracy", "HingeLoss", "MultinomialLogisticLoss", "SoftmaxWithLoss")
"""Layers whose second bottom holds labels: they index by it, without a check of their own."""

_FORWARD_ONLY = ("Accuracy", "ArgMax", "Threshold")
"""Layers that have no backward pass: Caffe aborts where one is asked for."""

Results = dict[str, np.ndarray]

Build = Callable[[caffe_pb2.NetParameter], Results]
"""Computes as :func:`compute` does."""


def layers_alone(path: Path, image: tuple[int, int, int], images: int) -> Iterator[tuple[str, caffe_pb2.NetParameter]]:
    """Name and net of each layer of a training net: the layer between inputs of the shapes that it has there.

    It sees ``images`` of the batch at most, unless it slices it. Layers that are alike give the same net, since names
    are left out of it. Raises ProgramError naming the file if Caffe refuses the whole net.
    """
    net = with_data_in_memory(read_net(path, ["Data"]), image)
    check_definition(net, str(path), caffe.TRAIN)
    whole = open_net(net, caffe.TRAIN)
    for layer in net.layer:
        if layer.type in NO_COMPUTATION:
            continue
        bottoms, tops = dict.fromkeys(layer.bottom), dict.fromkeys(layer.top)
        names = {name: f"top{i}" for i, name in enumerate(tops)} | {
            name: f"bottom{i}" for i, name in enumerate(bottoms)
        }
        alone = caffe_pb2.NetParameter(force_backward=True)
        for bottom in bottoms:
            blob = alone.layer.add(name=names[bottom], type="Input", top=[names[bottom]])
            count, *rest = whole.blobs[bottom].shape
            blob.input_param.shape.add().dim.extend([count if layer.type == "Slice" else min(count, images), *rest])
        copy = alone.layer.add()
        copy.CopyFrom(layer)
        copy.name = "layer"
        copy.bottom[:] = [names[bottom] for bottom in layer.bottom]
        copy.top[:] = [names[top] for top in layer.top]
        for param in copy.param:
            param.ClearField("name")
        yield layer.name, alone


def compute(net: caffe_pb2.NetParameter) -> Results:
    """What the last layer of ``net`` makes of random numbers: its tops and the gradients of bottoms and parameters."""
    caffe.set_random_seed(1)
    layer, alone, rng = net.layer[-1], open_net(net, caffe.TRAIN), np.random.default_rng(0)

    def random(shape: tuple[int, ...]) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    classes = alone.blobs[layer.bottom[0]].shape[-1]
    for i, bottom in enumerate(dict.fromkeys(layer.bottom)):
        blob = alone.blobs[bottom]
        labels = i == 1 and layer.type in _JUDGES
        blob.data[...] = rng.integers(0, classes, blob.shape) if labels else random(blob.shape)
    parameters = list(alone.params.get(layer.name, []))
    for blob in parameters:
        if layer.type != "BatchNorm":  # it holds sums and their count
            blob.data[...] = random(blob.shape) / np.sqrt(max(1, blob.count / blob.shape[0]))
        blob.diff[...] = 0.5  # gradients are added
    alone.forward()
    results = {f"top {name}": alone.blobs[name].data.copy() for name in layer.top}
    if layer.type in _FORWARD_ONLY:
        return results
    if "Loss" not in layer.type:  # a loss's own gradient is its weight
        for name in layer.top:
            alone.blobs[name].diff[...] = random(alone.blobs[name].shape)
    alone.backward()
    results |= {f"gradient of {name}": alone.blobs[name].diff.copy() for name in layer.bottom}
    for i, blob in enumerate(parameters):
        results |= {f"parameter {i}": blob.data.copy(), f"gradient of parameter {i}": blob.diff.copy()}
    return results


@dataclass(frozen=True)
class KindOfLayer:
    """What two builds make of all layers of a type."""

    type: str
    layers: int
    furthest: Difference
    where: str
    """File and name of the layer of ``furthest``."""


def compare_builds(other: Build, nets: Sequence[Path], images: int) -> list[KindOfLayer]:
    """This shell's build beside another one, on every layer of training nets: the types of layers, by name.

    A file's name begins with that of the dataset whose images the net sees, ``images`` of a batch at most. Layers that
    are alike are compared once. Raises ProgramError as :func:`layers_alone` does, and if there is no layer to compare.
    """
    seen: set[str] = set()
    count: Counter[str] = Counter()
    found: defaultdict[str, list[tuple[Difference, str]]] = defaultdict(list)
    for file in tqdm(nets):
        for name, net in layers_alone(file, _image(file), images):
            kind, text = net.layer[-1].type, str(net)
            count[kind] += 1
            if text not in seen:
                seen.add(text)
                found[kind].append((worst(differences(other(net), compute(net))), f"{file.name}: {name}"))
    if not found:
        raise ProgramError(f"{some(map(str, nets))}: no layer to compare, expected one that Caffe itself computes")
    furthest = {kind: max(rows, key=lambda row: row[0].relative) for kind, rows in sorted(found.items())}
    return [KindOfLayer(kind, count[kind], *row) for kind, row in furthest.items()]


def _image(file: Path) -> tuple[int, int, int]:
    """What a net sees of an image, by the dataset in its file's name."""
    name = max((name for name in DATASETS if file.name.startswith(name)), key=len, default=None)
    if name is None:
        raise ProgramError(f"{file}: expected a name that begins with a dataset's: {', '.join(DATASETS)}")
    return DATASETS[name].shape


@contextmanager
def other_build(prefix: Path) -> Iterator[Build]:
    """:func:`compute` by the Caffe of ``prefix``, in a process of its own. Raises ProgramError where that ends."""
    if not (prefix / "python/caffe/_caffe.so").exists():
        raise ProgramError(f"{prefix}: python/caffe/_caffe.so is missing; expected a folder of docker/build_caffe.sh")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(prefix.resolve() / "python"), *sys.path])}
    command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as child,
    ):

        def ask(net: caffe_pb2.NetParameter) -> Results:
            file = Path(folder) / "layer.npz"
            file.write_bytes(net.SerializeToString())
            print(file, file=child.stdin, flush=True)
            if not child.stdout.readline():
                raise ProgramError(f"{prefix}: this build ended with {child.wait()} on the layer {net.layer[-1]}")
            with np.load(file) as results:
                return dict(results)

        yield ask
        child.stdin.close()


def serve() -> None:
    """Replace each file of a net that stdin names by its results, until stdin ends."""
    for line in sys.stdin:
        file = Path(line.rstrip("\n"))
        np.savez(file, **compute(caffe_pb2.NetParameter.FromString(file.read_bytes())))
        print(flush=True)
