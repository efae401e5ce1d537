"""One side of a comparison in a process of its own: ``python -m latent_domains.bench.sides FUNCTION NET ARGUMENTS``.

For each line of stdin it takes its turn, and writes the seconds and the CPU seconds (of all its threads) of one step.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import TEST, TRAIN

from latent_domains.bench import training
from latent_domains.common.program import ROOT, run
from latent_domains.data.image_list import folder_entries
from latent_domains.models.model import feed, load, read_model
from latent_domains.runs.model_description import read_description
from latent_domains.runs.predict import BATCH, open_classifier, predict

Step = Callable[[], object]

TURN = 0.3
"""Seconds that a turn lasts at least: shorter steps are repeated."""


def train_caffe(net: str) -> Step:
    """Solver iterations of a committed training net on random images in memory."""
    return training.iteration(training.in_memory(net))


def train_torch(net: str, norm: str) -> Step:
    """The same in PyTorch, with mDA as one plain BN of all images (``plain``) or one weighted BN a domain."""
    import torch

    from latent_domains.bench.torch_net import TorchNet

    definition = training.in_memory(net)
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


def forward_caffe(prefix: str, batch: str) -> Step:
    """Forward passes of a model's net for tests, on ``batch`` random images in memory."""
    net = load(_read(prefix))
    (name,) = net.inputs
    feed(net, _images(net.blobs[name].data.shape[1:], int(batch)))
    return net.forward


def forward_torch(prefix: str, batch: str) -> Step:
    """The same in PyTorch."""
    import torch

    model = _read(prefix)
    images = {"data": torch.from_numpy(_images(model.net.layer[0].input_param.shape[0].dim[1:], int(batch)))}
    net = _torch_net(model)
    return lambda: net(images)


def forward_opencv(prefix: str, batch: str) -> Step:
    """The same in OpenCV, which takes stock layers only."""
    net = _opencv_net(prefix)
    shape = _read(prefix).net.layer[0].input_param.shape[0].dim[1:]
    net.setInput(_images(shape, int(batch)))
    return net.forward


def _predict_caffe(prefix: str, folder: str) -> Step:
    """What tools.predict does once it is up, for all images of a folder."""
    classifier, entries = open_classifier(Path(prefix), "CPU"), folder_entries(Path(folder))[0]
    return lambda: list(predict(classifier, entries, jobs=_threads()))


def _predict_program(prefix: str, folder: str) -> Step:
    """tools.predict itself, from start to exit."""
    out = Path(prefix).with_name("predictions.csv")
    command = [sys.executable, "-m", "tools.predict", prefix, folder, "--out", str(out), "--force"]
    command += ["--jobs", str(_threads())]
    return lambda: subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def _predict_torch(prefix: str, folder: str) -> Step:
    """As one writes it in PyTorch: read, resize, transform, forward, BATCH images at a time."""
    import torch

    net = _torch_net(_read(prefix))
    return _read_and_classify(prefix, folder, lambda rows: net({"data": torch.from_numpy(rows)})["prob"].numpy())


def _predict_opencv(prefix: str, folder: str) -> Step:
    """The same in OpenCV."""
    net = _opencv_net(prefix)

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


def _threads() -> int:
    return int(os.environ["OMP_NUM_THREADS"])


def _torch_net(model):
    import torch

    from latent_domains.bench.torch_net import TorchNet

    twin = TorchNet(model.net, model.blobs, TEST)
    return torch.inference_mode()(twin.forward)


def _opencv_net(prefix: str):
    import cv2

    return cv2.dnn.readNetFromCaffe(f"{prefix}.prototxt", f"{prefix}.caffemodel")


SIDES: Mapping[str, Callable[..., Step]] = {
    function.__name__: function
    for function in (
        train_caffe,
        train_torch,
        forward_caffe,
        forward_torch,
        forward_opencv,
        _predict_caffe,
        _predict_program,
        _predict_torch,
        _predict_opencv,
    )
}


def main() -> None:
    name, *arguments = sys.argv[1:]
    if name.endswith("torch"):
        import torch

        torch.set_num_threads(_threads())
    elif name.endswith("opencv"):
        import cv2

        cv2.setNumThreads(_threads())
    caffe.set_mode_cpu()
    step = SIDES[name](*arguments)
    for _ in sys.stdin:
        start, cpu, steps = time.perf_counter(), time.process_time(), 0
        while (elapsed := time.perf_counter() - start) < TURN or steps == 0:
            step()
            steps += 1
        print(json.dumps([elapsed / steps, (time.process_time() - cpu) / steps]), flush=True)


if __name__ == "__main__":
    run(main)
