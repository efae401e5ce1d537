"""Time and memory of one training iteration of the paper's nets at the paper's batch sizes, on this machine's CPU.

Every method is measured in turns in the same run: forward and backward by ``caffe time`` (the better of --rounds), and
the most memory that ``caffe train`` held over two iterations. The images are random ones. Times are worth comparing
within one run only.
"""

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from caffe.proto.caffe_pb2 import Datum
from tqdm import tqdm

from tools import lmdb_io
from tools.arguments import positive
from tools.caffe_log import ending
from tools.caffe_process import Threads, start
from tools.datasets import DATASETS, Dataset
from tools.experiment import Experiment, make_experiment
from tools.markdown import table
from tools.nets import make_nets_and_solver
from tools.preflight import check_caffe
from tools.program import ROOT, ProgramError, run
from tools.threads import milliseconds

NETS = ("office31", "office31_fc7", "pacs")
METHODS = ("source_only", "dial", "mda")


def random_lmdb(path: Path, data: Dataset, rng: np.random.Generator, records: int = 4) -> None:
    """A few records of the dataset's shape: the Data layer goes over them again and again."""
    channels, height, width = data.stored_shape
    with lmdb_io.create(path) as (writer, _):
        for label in range(records):
            if data.network == "alexnet_fc7":
                values = rng.normal(size=channels * height * width)
                datum = Datum(channels=channels, height=height, width=width, float_data=values, label=label)
            else:
                datum = lmdb_io.image_datum(rng.integers(0, 256, (height, width, channels)).astype(np.uint8), label)
            writer.put(str(label), datum)


def write_nets(experiment: Experiment, folder: Path, data: Path) -> tuple[Path, Path]:
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


def peak_memory(solver: Path, threads: Threads) -> float:
    """The most memory (GiB) that ``caffe train`` held at a time."""
    child = start(["train", "-solver", str(solver)], threads)
    try:
        log = child.stdout.read()
    except BaseException:  # Ctrl-C: it would go on alone
        child.kill()
        raise
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise ProgramError(f"{solver}: caffe train failed: {ending(child.returncode, log)}")
    return usage.ru_maxrss / 2**20


def measure(experiments: list[Experiment], threads: Threads, rounds: int) -> list[tuple[float, float]]:
    """Milliseconds and GiB of an iteration of each experiment, all of one dataset."""
    data = experiments[0].data
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for domain in data.domains:
            random_lmdb(folder / data.train_lmdb(domain), data, np.random.default_rng(0))
        files = [write_nets(experiment, folder / experiment.method, folder) for experiment in experiments]
        times = [float("inf")] * len(files)
        for _ in tqdm(range(rounds), desc=f"{data.name}: time"):
            for i, (net, _) in enumerate(files):
                times[i] = min(times[i], milliseconds(net, threads, 2))
        memory = [peak_memory(solver, threads) for _, solver in tqdm(files, desc=f"{data.name}: memory")]
    return list(zip(times, memory, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_nets", description=__doc__)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", help=f"default: {' '.join(NETS)}")
    parser.add_argument("--rounds", type=positive, default=2, help="times every method is timed (default: %(default)s)")
    options = parser.parse_args()
    for name in options.datasets:
        if name not in DATASETS:
            raise ProgramError(f"dataset: got {name!r}, expected one of {', '.join(DATASETS)}")
    check_caffe()
    os.chdir(ROOT)
    cores = len(os.sched_getaffinity(0))
    threads = Threads(cores, cores)
    rows = []
    for name in options.datasets or NETS:
        experiments = [make_experiment(name, method, iterations=2) for method in METHODS]
        results = measure(experiments, threads, options.rounds)
        for experiment, (ms, gib) in zip(experiments, results, strict=True):
            ratio = ms / results[0][0]
            rows.append([name, experiment.title, str(experiment.batch_size), f"{ms / 1000:.2f} s", f"{ratio:.2f}",
                         f"{gib:.1f} GiB"])  # fmt: skip
    print(table(["net", "method", "images", "iteration", "to source only", "memory"], rows))
    print(f"{cores} cores")
    return 0


if __name__ == "__main__":
    run(main)
