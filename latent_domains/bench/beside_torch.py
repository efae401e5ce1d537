"""Rows of the speed table for training iterations of whole nets, beside PyTorch.

Each side has a process of its own, since both have threads, and they take turns.
"""

import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from caffe_layers._device import import_cupy
from latent_domains.bench import training
from latent_domains.bench.rows import Extent, Measured, SpeedRow, Step
from latent_domains.common.caffe_process import environment

if TYPE_CHECKING:
    from torch import Tensor

    from latent_domains.bench.torch_net import TorchTwin

Side = Callable[[int], Step]
"""Loads what it needs, on so many threads, and returns the step that is timed."""

OURS = "Caffe"

_ROUNDS = 2
"""At least."""

_TURN = 0.3
"""Seconds that a turn lasts at least: shorter steps are repeated."""

_SETTLE = 0.05
"""Seconds between two turns: threads that wait by spinning have gone to sleep by then."""

_NETS = (
    ("digits", "plain", 1.0),
    ("digits", "weighted", 0.45),
    ("resnet18", "plain", 1.1),
    ("alexnet", "plain", 1.1),
    ("lite0", "plain", 0.3),
    ("lite0-128", "plain", 0.3),
)
"""Net; what PyTorch has in mDA's place, one BN of all images or one weighted BN a domain; goal on two threads."""

_NETS_ON_A_GPU = (
    ("digits", "plain", None),
    ("digits", "weighted", None),
    ("resnet18", "plain", 1.0),
    ("resnet18", "weighted", 0.5),
    ("lite0", "plain", None),
    ("lite0-128", "plain", None),
)
"""Likewise on a GPU; the goal is for both precisions."""

_GPU_STEPS = 10
"""Iterations that are started on a GPU before the host waits for it."""


def has_torch() -> bool:
    """Whether PyTorch is installed, which these rows need and the project does not."""
    return importlib.util.find_spec("torch") is not None


def rows() -> list[SpeedRow]:
    """An iteration in Caffe, with mDA, in units of PyTorch's; the number of threads ends the name."""
    return [
        SpeedRow(
            f"train-{net}-{norm}-{threads}",
            f"mDA / torch {norm} BN",
            goal if threads == 2 else None,
            True,
            partial(_measure, net, norm, threads),
        )
        for threads in (2, 1)
        for net, norm, goal in _NETS
    ]


def gpu_rows(number: int) -> list[SpeedRow]:
    """An iteration in Caffe on this GPU, with mDA, in units of PyTorch's: in float32, then with TF32 on both sides."""
    return [
        SpeedRow(
            f"train-{net}-{norm}-{precision}",
            f"mDA / torch {norm} BN",
            goal,
            True,
            partial(_measure_on_gpu, net, norm, number, tf32),
        )
        for precision, tf32 in (("float32", False), ("tf32", True))
        for net, norm, goal in _NETS_ON_A_GPU
    ]


@dataclass(frozen=True)
class Best:
    """The least seconds and CPU seconds (of all threads) of a step over its turns."""

    seconds: float
    cpu: float

    def __str__(self) -> str:
        return f"{_shown(self.seconds)} (CPU {_shown(self.cpu)})"


def _shown(seconds: float) -> str:
    return f"{1e3 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _measure(net: str, norm: str, threads: int, extent: Extent) -> Measured:
    sides = {
        OURS: partial(_caffe, net, extent.smallest),
        "PyTorch": partial(_torch, net, extent.smallest, norm == "plain"),
    }
    best = take_turns(sides, threads, extent)
    return Measured(best[OURS].seconds / best["PyTorch"].seconds, ", ".join(f"{name} {b}" for name, b in best.items()))


def _measure_on_gpu(net: str, norm: str, number: int, tf32: bool, extent: Extent) -> Measured:
    sides = {
        OURS: partial(_caffe_on_gpu, net, extent.smallest, number),
        "PyTorch": partial(_torch, net, extent.smallest, norm == "plain", device=f"cuda:{number}", tf32=tf32),
    }
    best = take_turns(sides, 1, extent, {"CAFFE_TF32": str(int(tf32))})
    seconds = {name: each.seconds / _GPU_STEPS for name, each in best.items()}
    detail = ", ".join(f"{name} {1e3 * each:.3g} ms" for name, each in seconds.items())
    return Measured(seconds[OURS] / seconds["PyTorch"], detail)


def _caffe_on_gpu(net: str, smallest: bool, number: int, threads: int) -> Step:
    """So many iterations of Caffe on a GPU as count for one step."""
    import caffe

    caffe.set_device(number)
    caffe.set_mode_gpu()
    wait = import_cupy().cuda.Device(number).synchronize
    solver = training.make_solver(training.net_in_memory(**training.settings(net, smallest=smallest)))

    def step() -> None:
        solver.step(_GPU_STEPS)
        wait()

    return step


def _caffe(net: str, smallest: bool, threads: int) -> Step:
    """Solver iterations of a committed training net on random images in memory."""
    return training.iteration(training.net_in_memory(**training.settings(net, smallest=smallest)))


def _torch(net: str, smallest: bool, plain: bool, threads: int, *, device: str = "cpu", tf32: bool = False) -> Step:
    """The same in PyTorch; on a GPU so many iterations as count for one step."""
    import torch

    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    twin, inputs = twin_and_inputs(training.settings(net, smallest=smallest), plain, device)
    optimizer = torch.optim.SGD([p for p in twin.parameters() if p.requires_grad], training.RATE, momentum=0.9)

    def iteration() -> None:
        optimizer.zero_grad()
        twin.loss(twin(inputs)).backward()
        optimizer.step()

    def on_gpu() -> None:
        for _ in range(_GPU_STEPS):
            iteration()
        torch.cuda.synchronize()

    return iteration if device == "cpu" else on_gpu


def twin_and_inputs(settings: Mapping[str, Any], plain: bool, device: str) -> "tuple[TorchTwin, dict[str, Tensor]]":
    """The twin of a training net with these settings, and the net's inputs; all that it reads is on the device."""
    import torch

    from latent_domains.bench.torch_net import TorchTwin

    definition = training.net_in_memory(**settings)
    made = training.make_solver(definition).net
    blobs = {name: [blob.data.copy() for blob in of_layer] for name, of_layer in made.params.items()}
    with torch.device(device):
        twin = TorchTwin(definition, blobs, plain=plain)
    tops = [top for layer in definition.layer if layer.type == "Input" for top in layer.top]
    return twin, {top: torch.from_numpy(made.blobs[top].data.copy()).to(device) for top in tops}


def take_turns(
    sides: dict[str, Side], threads: int, extent: Extent, variables: Mapping[str, str] | None = None
) -> dict[str, Best]:
    """The best of each of the sides, by their names.

    They take turns for three times the extent's seconds, at least _ROUNDS rounds, after one that does not count; the
    smallest extent is one step of each, in this process unless theirs need environment ``variables``. What a side
    raises is raised here.
    """
    if extent.smallest and variables is None:
        return {name: _turn(side(threads), 0) for name, side in sides.items()}
    with ExitStack() as stack:
        processes = {}
        for name, side in sides.items():
            processes[name] = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
            with _environment(threads, variables or {}, ours=name == OURS):
                processes[name].submit(_load, side, threads).result()
        taken: dict[str, list[Best]] = {name: [] for name in sides}
        end = None
        while end is None or len(taken[OURS]) <= _ROUNDS or time.perf_counter() < end:
            for name, process in processes.items():
                time.sleep(_SETTLE)
                taken[name].append(process.submit(_turn_of_loaded).result())
            end = end or time.perf_counter() + 3 * extent.seconds
    return {
        name: Best(min(turn.seconds for turn in turns[1:]), min(turn.cpu for turn in turns[1:]))
        for name, turns in taken.items()
    }


@contextmanager
def _environment(threads: int, variables: Mapping[str, str], *, ours: bool) -> Iterator[None]:
    """What a side's process begins with: its threads. How they wait (OMP_WAIT_POLICY of env.sh) is for ours alone."""
    before = dict(os.environ)
    try:
        os.environ.update(environment(threads) | {"GLOG_minloglevel": "2"} | variables)
        if not ours:
            os.environ.pop("OMP_WAIT_POLICY", None)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


_loaded: list[Step] = []
"""The step of a side's process."""


def _load(side: Side, threads: int) -> None:
    _loaded.append(side(threads))


def _turn_of_loaded() -> Best:
    return _turn(_loaded[0], _TURN)


def _turn(step: Step, seconds: float) -> Best:
    start, cpu, steps = time.perf_counter(), time.process_time(), 0
    while (elapsed := time.perf_counter() - start) < seconds or steps == 0:
        step()
        steps += 1
    return Best(elapsed / steps, (time.process_time() - cpu) / steps)
