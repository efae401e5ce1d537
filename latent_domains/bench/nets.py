"""Time and memory of one training iteration of the paper's nets."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from caffe.proto.caffe_pb2 import Datum
from tqdm import tqdm

from latent_domains.common.caffe_log import ending
from latent_domains.common.caffe_process import read_log, start
from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.experiment.datasets import Dataset
from latent_domains.experiment.experiment import Experiment
from latent_domains.nets.whole import make_nets_and_solver
from latent_domains.training.threads import milliseconds


def _random_lmdb(path: Path, data: Dataset) -> None:
    """A few records of the dataset's shape: the Data layer goes over them again and again."""
    rng, (channels, height, width) = np.random.default_rng(0), data.stored_shape
    with lmdb_io.create(path) as (writer, _):
        for label in range(4):
            if (height, width) == (1, 1):  # features, which are no bytes
                values = rng.normal(size=channels * height * width)
                datum = Datum(channels=channels, height=height, width=width, float_data=values, label=label)
            else:
                datum = lmdb_io.image_datum(rng.integers(0, 256, (height, width, channels)).astype(np.uint8), label)
            writer.put(str(label), datum)


def _write_nets(experiment: Experiment, folder: Path, data: Path) -> tuple[Path, Path]:
    """Write the nets, with the paper's batches, and the solver; return the files of training net and solver."""
    nets, text = make_nets_and_solver(
        experiment, str(data), lambda name: f"{folder}/{name}.prototxt", f"{folder}/model", solver_mode="CPU"
    )
    folder.mkdir()
    for name, net in nets.items():
        (folder / f"{name}.prototxt").write_text(net)
    solver = folder / "solver.prototxt"
    solver.write_text(text)
    return folder / "train.prototxt", solver


def _peak_memory(solver: Path, threads: int) -> float:
    """The most memory (GiB) that ``caffe train`` held at a time."""
    child = start(["train", "-solver", str(solver)], threads)
    log = read_log(child)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise ProgramError(f"{solver}: caffe train failed: {ending(child.returncode, log)}")
    return usage.ru_maxrss / 2**20


def measure(experiments: list[Experiment], threads: int, rounds: int) -> list[tuple[float, float]]:
    """Milliseconds and GiB of an iteration of each experiment, all of one dataset."""
    data = experiments[0].data
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for lmdb in {made(domain) for domain in data.domains for made in (data.train_lmdb, data.test_lmdb)}:
            _random_lmdb(folder / lmdb, data)
        files = [_write_nets(experiment, folder / experiment.method, folder) for experiment in experiments]
        times = [float("inf")] * len(files)
        for _ in tqdm(range(rounds), desc=f"{data.name}: time"):
            for i, (net, _) in enumerate(files):
                times[i] = min(times[i], milliseconds(net, threads, 2))
        memory = [_peak_memory(solver, threads) for _, solver in tqdm(files, desc=f"{data.name}: memory")]
    return list(zip(times, memory, strict=True))
