"""Training iterations of a net with mDA, by default the digits net, and with BatchNorm: whole, and by kind of layer."""

import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import caffe
import numpy as np
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.caffe_log import failure_reason
from latent_domains.common.caffe_process import read_log, start
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.models import prototxt
from latent_domains.models.graph import kind

NET = ROOT / "prototxt/mnist/digits_train.prototxt"
IMAGE = (3, 28, 28)
# The blob of labelled images' class scores, by which the generator's nets call it.
SCORES = "scores_source"


def read_net(path: Path = NET) -> caffe_pb2.NetParameter:
    """The net of a prototxt file."""
    return prototxt.read(path, caffe_pb2.NetParameter(), "a net's prototxt")


def with_data_in_memory(net: caffe_pb2.NetParameter, image: tuple[int, int, int] = IMAGE) -> caffe_pb2.NetParameter:
    """A copy whose Data layers are Input layers of the same tops and sizes; ``image`` is what the net sees of one."""
    copy = caffe_pb2.NetParameter()
    copy.CopyFrom(net)
    for layer in copy.layer:
        if layer.type != "Data":
            continue
        rows = layer.data_param.batch_size
        layer.type = "Input"
        layer.ClearField("data_param")
        layer.ClearField("transform_param")
        for shape in [(rows, *image), (rows,)][: len(layer.top)]:
            layer.input_param.shape.add().dim.extend(shape)
    return copy


def with_batch_norm(net: caffe_pb2.NetParameter) -> caffe_pb2.NetParameter:
    """A copy with Caffe's BatchNorm in place of every mDA layer; all else, the branch included, stays."""
    copy = caffe_pb2.NetParameter()
    copy.CopyFrom(net)
    for layer in copy.layer:
        if layer.type == "Python" and layer.python_param.layer == "MDALayer":
            layer.type = "BatchNorm"
            layer.ClearField("python_param")
            del layer.bottom[1:]
    return copy


def make_solver(net: caffe_pb2.NetParameter, base_lr: float) -> caffe.SGDSolver:
    """A solver of ``net``, whose inputs hold fixed random images and labels."""
    with tempfile.TemporaryDirectory() as folder:
        train = Path(folder) / "train.prototxt"
        train.write_text(text_format.MessageToString(net))
        solver_file = Path(folder) / "solver.prototxt"
        solver_file.write_text(
            f'train_net: "{train}" base_lr: {base_lr} lr_policy: "fixed" momentum: 0.9 max_iter: 100000 '
            f"display: 0 random_seed: 1 snapshot_after_train: false"
        )
        solver = caffe.SGDSolver(str(solver_file))
    classes = solver.net.blobs[SCORES].shape[1]
    rng = np.random.default_rng(0)
    for layer in net.layer:
        if layer.type == "Input":
            for top in layer.top:
                data = solver.net.blobs[top].data
                data[...] = rng.integers(0, classes, data.shape) if data.ndim == 1 else rng.normal(size=data.shape)
    return solver


def iteration(net: caffe_pb2.NetParameter) -> Callable[[], None]:
    """A function that does one solver iteration (forward, backward, update) of ``net`` on fixed random images."""
    # A rate this small keeps the numbers, and so the work, the same in every iteration.
    solver = make_solver(net, 1e-8)
    return lambda: solver.step(1)


_LINE = re.compile(r"\]\s+(\S+)\s+(?:forward|backward): ([0-9.e+-]+) ms")


def layer_times(log: str) -> dict[str, float]:
    """Milliseconds of forward and backward together for each layer in the log of ``caffe time``."""
    start = log.find("Average time per layer")
    if start < 0:
        raise ProgramError(f"caffe time printed no average time per layer; it ended with: {log.strip()[-500:]}")
    times: Counter[str] = Counter()
    for name, milliseconds in _LINE.findall(log[start:]):
        times[name] += float(milliseconds)
    return dict(times)


def times_by_kind(net: caffe_pb2.NetParameter, iterations: int, threads: int) -> dict[str, float]:
    """Milliseconds of an iteration for each kind of layer, largest first; layers that only hold inputs left out."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "net.prototxt"
        model.write_text(text_format.MessageToString(net))
        with start(["time", "-model", str(model), "-iterations", str(iterations)], threads) as child:
            log = read_log(child)
    if child.returncode:
        raise ProgramError(f"caffe time ended with exit code {child.returncode}: {failure_reason(log)}")
    kinds = {layer.name: kind(layer) for layer in net.layer}
    total: Counter[str] = Counter()
    for name, milliseconds in layer_times(log).items():
        # Caffe inserts the Split layers itself.
        total[kinds.get(name, "Split")] += milliseconds
    del total["Input"]
    return dict(total.most_common())
