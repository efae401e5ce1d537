"""Rows of the speed table that compare training iterations of whole nets with PyTorch's.

Each side has its own process, since both use threads. The processes take turns.
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

from bench import training
from bench.rows import Extent, Measured, SpeedRow, Step, TimedDevice
from caffe_layers._device import import_cupy
from latent_domains.common.caffe_process import environment

if TYPE_CHECKING:
    from torch import Tensor

    from bench.torch_net import TorchTwin

Side = Callable[[], Step]
"""A function that loads what it needs and returns the step to be timed."""

OURS = "Caffe"

_ROUNDS = 2
"""The fewest rounds."""

_TURN = 0.3
"""The shortest turn in seconds; a shorter step is repeated."""

_SETTLE = 0.05
"""Seconds between two turns, in which threads that spin while they wait go to sleep."""

_NETS = (
    ("digits", "plain", 1.0),
    ("digits", "weighted", 0.45),
    ("resnet18", "plain", 1.1),
    ("alexnet", "plain", 1.1),
    ("lite0", "plain", 0.3),
    ("lite0-128", "plain", 0.3),
)
"""Net; what PyTorch has instead of mDA (one BN of all images, or a weighted BN per domain); goal on two threads."""

_NETS_ON_A_GPU = (
    ("digits", "plain", None),
    ("digits", "weighted", None),
    ("resnet18", "plain", 1.0),
    ("resnet18", "weighted", 0.5),
    ("lite0", "plain", None),
    ("lite0-128", "plain", None),
)
"""The same on a GPU; the goal is for both precisions."""

_GPU_STEPS = 10
"""Iterations that are started on a GPU before the host waits for it, and that are timed as one step."""


def has_torch() -> bool:
    """Say whether PyTorch is installed. Only these rows need it."""
    return importlib.util.find_spec("torch") is not None


@dataclass(frozen=True)
class Where:
    """What both sides compute on: threads of the processor, or a GPU by its number, in float32 or with TF32."""

    threads: int = 1
    gpu: int | None = None
    tf32: bool = False

    @property
    def steps(self) -> int:
        """Iterations that are timed together."""
        return 1 if self.gpu is None else _GPU_STEPS


def rows() -> list[SpeedRow]:
    """Return an iteration's time in Caffe with mDA, divided by PyTorch's.

    A row's name ends with the number of threads.
    """
    return [
        _row(net, norm, str(threads), goal if threads == 2 else None, Where(threads))
        for threads in (2, 1)
        for net, norm, goal in _NETS
    ]


def gpu_rows(number: int) -> list[SpeedRow]:
    """Return the same on this GPU: in float32, and with TF32 on both sides."""
    return [
        _row(net, norm, precision, goal, Where(gpu=number, tf32=tf32))
        for precision, tf32 in (("float32", False), ("tf32", True))
        for net, norm, goal in _NETS_ON_A_GPU
    ]


def _row(net: str, norm: str, ending: str, goal: float | None, where: Where) -> SpeedRow:
    measure = partial(_measure, net, norm, where)
    return SpeedRow(f"train-{net}-{norm}-{ending}", f"mDA / torch {norm} BN", goal, True, measure)


@dataclass(frozen=True)
class Best:
    """A step's fewest seconds over its turns, and its fewest CPU seconds (of all threads)."""

    seconds: float
    cpu: float


def _measure(net: str, norm: str, where: Where, extent: Extent) -> Measured:
    settings = training.settings(net, smallest=extent.smallest)
    sides = {OURS: partial(_caffe, settings, where), "PyTorch": partial(_torch, settings, norm == "plain", where)}
    variables = {} if where.gpu is None else {"CAFFE_TF32": str(int(where.tf32))}
    best = take_turns(sides, where.threads, extent, variables)
    detail = (f"{name} {_ms(each.seconds, where)} (CPU {_ms(each.cpu, where)})" for name, each in best.items())
    return Measured(best[OURS].seconds / best["PyTorch"].seconds, ", ".join(detail))


def _ms(seconds: float, where: Where) -> str:
    """Format the time of one iteration."""
    return f"{1e3 * seconds / where.steps:.1f} ms"


def _caffe(settings: Mapping[str, Any], where: Where) -> Step:
    """Return solver iterations of a committed training net on random images in memory."""
    wait = None
    if where.gpu is not None:
        import caffe

        caffe.set_device(where.gpu)
        caffe.set_mode_gpu()
        wait = import_cupy().cuda.Device(where.gpu).synchronize
    return TimedDevice(where.steps, wait).repeated(training.iteration(training.net_in_memory(**settings)))


def _torch(settings: Mapping[str, Any], plain: bool, where: Where) -> Step:
    """Return the same iterations in PyTorch."""
    import torch

    torch.set_num_threads(where.threads)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = where.tf32
    twin, inputs = twin_and_inputs(settings, plain, "cpu" if where.gpu is None else f"cuda:{where.gpu}")
    optimizer = torch.optim.SGD([p for p in twin.parameters() if p.requires_grad], training.RATE, momentum=0.9)

    def iteration() -> None:
        optimizer.zero_grad()
        twin.loss(twin(inputs)).backward()
        optimizer.step()

    return TimedDevice(where.steps, None if where.gpu is None else torch.cuda.synchronize).repeated(iteration)


def twin_and_inputs(settings: Mapping[str, Any], plain: bool, device: str) -> "tuple[TorchTwin, dict[str, Tensor]]":
    """Return PyTorch's twin of the training net with these settings, and the net's inputs, both on the device."""
    import torch

    from bench.torch_net import TorchTwin

    definition = training.net_in_memory(**settings)
    made = training.make_solver(definition).net
    blobs = {name: [blob.data.copy() for blob in of_layer] for name, of_layer in made.params.items()}
    with torch.device(device):
        twin = TorchTwin(definition, blobs, plain=plain)
    tops = [top for layer in definition.layer if layer.type == "Input" for top in layer.top]
    return twin, {top: torch.from_numpy(made.blobs[top].data.copy()).to(device) for top in tops}


def take_turns(
    sides: Mapping[str, Side], threads: int, extent: Extent, variables: Mapping[str, str]
) -> dict[str, Best]:
    """Return the best times of each side, by its name.

    After one round that does not count, the sides take turns for three times the extent's seconds, at least _ROUNDS
    rounds. For the smallest extent each does one step, in this process unless ``variables`` of the environment are
    needed. An error of a side is raised here.
    """
    if extent.smallest and not variables:
        return {name: _turn(side(), 0) for name, side in sides.items()}
    with ExitStack() as stack:
        processes = {}
        for name, side in sides.items():
            processes[name] = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
            with _environment(threads, variables, ours=name == OURS):
                processes[name].submit(_load, side).result()
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
    """Set the environment in which a side's process starts. Only ours keeps OMP_WAIT_POLICY of env.sh."""
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
"""In a side's process: its step."""


def _load(side: Side) -> None:
    _loaded.append(side())


def _turn_of_loaded() -> Best:
    return _turn(_loaded[0], _TURN)


def _turn(step: Step, seconds: float) -> Best:
    start, cpu, steps = time.perf_counter(), time.process_time(), 0
    while (elapsed := time.perf_counter() - start) < seconds or steps == 0:
        step()
        steps += 1
    return Best(elapsed / steps, (time.process_time() - cpu) / steps)
