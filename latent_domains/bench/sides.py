"""Sides of comparisons: each function loads what its side needs, on so many threads, and returns a step to be timed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import TEST, TRAIN

from latent_domains.bench import training
from latent_domains.bench.extent import Extent
from latent_domains.common.program import ROOT
from latent_domains.data.image_list import folder_entries
from latent_domains.models.model import feed, load, read_model
from latent_domains.runs.model_description import read_description
from latent_domains.runs.predict import BATCH, open_classifier, predict

Step = Callable[[], object]


def train_caffe(threads: int, net: str, extent: Extent) -> Step:
    """Solver iterations of a committed training net on random images in memory."""
    return training.iteration(training.in_memory(net, extent))


def train_torch(threads: int, net: str, extent: Extent, norm: str) -> Step:
    """The same in PyTorch, with mDA as one plain BN of all images (``plain``) or one weighted BN a domain."""
    torch = _torch(threads)
    from latent_domains.bench.torch_net import TorchNet

    definition = training.in_memory(net, extent)
    solver = training.make_solver(definition, training.RATE)
    blobs = {name: [blob.data.copy() for blob in of_layer] for name, of_layer in solver.net.params.items()}
    twin = TorchNet(definition, blobs, TRAIN, plain=norm == "plain")
    tops = [top for layer in definition.layer if layer.type == "Input" for top in layer.top]
    inputs = {top: torch.from_numpy(solver.net.blobs[top].data.copy()) for top in tops}
    del solver
    optimizer = torch.optim.SGD([p for p in twin.parameters() if p.requires_grad], training.RATE, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        twin.loss(twin(inputs)).backward()
        optimizer.step()

    return step


def forward_caffe(threads: int, prefix: str, batch: int) -> Step:
    """Forward passes of a model's net for tests, on ``batch`` random images in memory."""
    net = load(_read(prefix))
    (name,) = net.inputs
    feed(net, _images(net.blobs[name].data.shape[1:], batch))
    return net.forward


def forward_torch(threads: int, prefix: str, batch: int) -> Step:
    """The same in PyTorch."""
    torch = _torch(threads)
    model = _read(prefix)
    images = {"data": torch.from_numpy(_images(model.net.layer[0].input_param.shape[0].dim[1:], batch))}
    net = _torch_net(model)
    return lambda: net(images)


def forward_opencv(threads: int, prefix: str, batch: int) -> Step:
    """The same in OpenCV, which takes stock layers only."""
    net = _opencv_net(threads, prefix)
    shape = _read(prefix).net.layer[0].input_param.shape[0].dim[1:]
    net.setInput(_images(shape, batch))
    return net.forward


def predict_caffe(threads: int, prefix: str, folder: str) -> Step:
    """What tools.predict does once it is up, for all images of a folder."""
    classifier, entries = open_classifier(Path(prefix), "CPU"), folder_entries(Path(folder))[0]
    return lambda: list(predict(classifier, entries, jobs=threads))


def predict_program(threads: int, prefix: str, folder: str) -> Step:
    """tools.predict itself, from start to exit."""
    out = Path(prefix).with_name("predictions.csv")
    command = [sys.executable, "-m", "tools.predict", prefix, folder, "--out", str(out), "--force"]
    command += ["--jobs", str(threads)]
    return lambda: subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def predict_torch(threads: int, prefix: str, folder: str) -> Step:
    """As one writes it in PyTorch: read, resize, transform, forward, BATCH images at a time."""
    torch = _torch(threads)
    net = _torch_net(_read(prefix))
    return _read_and_classify(prefix, folder, lambda rows: net({"data": torch.from_numpy(rows)})["prob"].numpy())


def predict_opencv(threads: int, prefix: str, folder: str) -> Step:
    """The same in OpenCV."""
    net = _opencv_net(threads, prefix)

    def classify(rows: np.ndarray) -> np.ndarray:
        net.setInput(rows)
        return net.forward()

    return _read_and_classify(prefix, folder, classify)


def _read_and_classify(prefix: str, folder: str, classify: Callable[[np.ndarray], np.ndarray]) -> Step:
    import cv2

    form = read_description(Path(f"{prefix}.json")).preprocessing
    _, height, width = form.stored_shape
    files = [str(entry.file) for entry in folder_entries(Path(folder))[0]]

    def image(file: str) -> np.ndarray:
        return cv2.resize(cv2.imread(file), (width, height)).transpose(2, 0, 1)

    def step() -> list[int]:
        found: list[int] = []
        for start in range(0, len(files), BATCH):
            rows = form.inputs([image(file) for file in files[start : start + BATCH]])
            found += classify(rows).reshape(len(rows), -1).argmax(1).tolist()
        return found

    return step


def _read(prefix: str):
    return read_model(Path(f"{prefix}.prototxt"), Path(f"{prefix}.caffemodel"))


def _images(shape, batch: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(batch, *shape)).astype(np.float32)


def _torch(threads: int):
    import torch

    torch.set_num_threads(threads)
    return torch


def _torch_net(model):
    import torch

    from latent_domains.bench.torch_net import TorchNet

    twin = TorchNet(model.net, model.blobs, TEST)
    return torch.inference_mode()(twin.forward)


def _opencv_net(threads: int, prefix: str):
    import cv2

    cv2.setNumThreads(threads)
    return cv2.dnn.readNetFromCaffe(f"{prefix}.prototxt", f"{prefix}.caffemodel")
