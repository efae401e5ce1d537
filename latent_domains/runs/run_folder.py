"""A run folder: one experiment with its own nets and solver, its log, its snapshots and its record."""

import re
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import caffe
from caffe.proto import caffe_pb2
from google.protobuf.message import DecodeError, Message

from latent_domains.common.files import expect_file, json_text, read_bytes
from latent_domains.common.program import ROOT, ProgramError, from_root
from latent_domains.experiment.experiment import Experiment, from_json
from latent_domains.models import prototxt
from latent_domains.models.allowed import read_net
from latent_domains.models.model import check_loads, open_net
from latent_domains.models.weights import check_weights
from latent_domains.runs import lock
from latent_domains.runs.record import Failure, Record, RunDescription, Training, read


@dataclass(frozen=True)
class Snapshot:
    """A complete snapshot of the solver: both of its files can be read."""

    iteration: int
    state: Path
    model: Path


@dataclass(frozen=True)
class RunFolder:
    """The files of a run folder."""

    path: Path
    experiment: Experiment
    data_folder: Path
    """Contains the images' LMDBs."""

    @classmethod
    def load(cls, path: Path) -> "RunFolder":
        """Open an existing run folder."""
        file = path / "experiment.json"
        if not is_run_folder(path):
            raise ProgramError(f"{path}: no experiment.json in it, expected a run folder (python -m tools.write_run)")
        description = read(RunDescription, file)
        try:
            return cls(path, from_json(description.experiment), ROOT / description.data)
        except ProgramError as error:
            raise ProgramError(f"{file}: {error}") from error

    def description(self) -> str:
        """Return the text of ``experiment.json``."""
        return json_text({"experiment": self.experiment.to_json(), "data": from_root(self.data_folder)})

    @property
    def train_lmdbs(self) -> dict[str, Path]:
        """LMDBs of the training images of each of the experiment's parts: sources and, if it sees them, targets."""
        return {part: self.data_folder / self.experiment.data.train_lmdb(part) for part in self.experiment.batch_inputs}

    @property
    def test_lmdbs(self) -> dict[str, Path]:
        """LMDB of the test images of each target that is tested."""
        return {
            target: self.data_folder / self.experiment.data.test_lmdb(target)
            for target in self.experiment.task.tests.values()
        }

    def lmdbs_of(self, net: str) -> dict[str, Path]:
        """Return the LMDBs of the Data layers of the train net or of a test net, by the layer's name."""
        if net in self.experiment.task.tests:
            return {"data": self.test_lmdbs[self.experiment.task.tests[net]]}
        return self.lmdbs_of_images | {f"domain_label_{part}": lmdb for part, lmdb in self.domain_labels.items()}

    @property
    def lmdbs_of_images(self) -> dict[str, Path]:
        """LMDBs of the Data layers of the train net that read images, by the layer's name."""
        return {f"data_{part}": lmdb for part, lmdb in self.train_lmdbs.items()}

    @property
    def test_nets(self) -> dict[str, Path]:
        """The test net of each target that is tested."""
        return {target: self.net(name) for name, target in self.experiment.task.tests.items()}

    def test_batches(self) -> dict[str, tuple[int, int]]:
        """Batch size and number of batches of each target's test pass, from the run's own nets and solver."""
        solver, tests = self.read_solver(), self.experiment.task.tests
        if len(solver.test_iter) != len(tests) or min(solver.test_iter, default=1) < 1:
            raise ProgramError(
                f"{self.solver}: test_iter is {list(solver.test_iter)}, expected {len(tests)} of at least 1"
            )
        found = {}
        for (name, target), batches in zip(tests.items(), solver.test_iter, strict=True):
            sizes = list(self._batch_sizes(name).values())
            if len(sizes) != 1 or sizes[0] < 1:
                raise ProgramError(f"{self.net(name)}: Data layers have batch sizes {sizes}, expected one of ≥ 1")
            found[target] = (sizes[0], batches)
        return found

    def batch_rows(self) -> dict[str, int]:
        """Rows of each of the experiment's parts in a batch of the training net."""
        sizes = self._batch_sizes("train")
        found = {part: sizes.get(f"data_{part}", 0) for part in self.experiment.batch_inputs}
        for part, rows in found.items():
            if rows < 1:
                raise ProgramError(f"{self.net('train')}: expected a Data layer data_{part} with a batch of at least 1")
        return found

    def _batch_sizes(self, net: str) -> dict[str, int]:
        """Return the batch sizes of a net's Data layers, by name."""
        return {layer.name: layer.data_param.batch_size for layer in self.read_net(net).layer if layer.type == "Data"}

    def read_net(self, name: str) -> caffe_pb2.NetParameter:
        """Return one of the run's nets. Refuses layers that could run other code, which an edited net may have."""
        return read_net(self.net(name), ["Data"] if name in ("train", *self.experiment.task.tests) else [])

    def load_net(self, name: str, phase: int, weights: Path | None = None) -> caffe.Net:
        """Load one of the run's nets in Caffe, with the parameters of a caffemodel, if any.

        Its Data layers read the LMDBs of ``experiment.json``, in the stored order, even if training shuffles. Refuses a
        snapshot of another net.
        """
        definition, lmdbs = self.read_net(name), self.lmdbs_of(name)
        if self.net(name).stat().st_mtime_ns > (self.path / "experiment.json").stat().st_mtime_ns:
            check_loads(self.net(name), phase)
        for layer in definition.layer:
            if layer.type == "Data":
                layer.data_param.source = str(lmdbs.get(layer.name, ROOT / layer.data_param.source))
                layer.data_param.ClearField("shuffle_seed")
                layer.data_param.ClearField("records")
        net = open_net(definition, phase)
        if weights is not None:
            layers = None if weights == self.initial else list(net.params)  # what begins as a constant is not in it
            try:
                check_weights(weights, [net], layers)
            except ProgramError as error:
                raise ProgramError(f"{self.net(name)} is not the net of these weights: {error}") from error
            net.copy_from(str(weights.resolve()))
        return net

    def read_solver(self) -> caffe_pb2.SolverParameter:
        """Return the run's solver."""
        return prototxt.read(self.solver, caffe_pb2.SolverParameter())

    def read_record(self) -> Record:
        """Return the record. If it is damaged, the error says how to make it again."""
        try:
            record = read(Record, self.record_file)
            record.check(self.experiment, str(self.record_file))
            if from_json(record.experiment) != self.experiment:
                raise ProgramError(f"{self.record_file}: experiment: differs from experiment.json beside it")
            if (record.accuracy is None) == bool(self.experiment.task.tests):
                expected = "a number" if self.experiment.task.tests else "null, as no target has labels"
                raise ProgramError(f"{self.record_file}: accuracy: found {record.accuracy!r}, expected {expected}")
            return record
        except ProgramError as error:
            raise ProgramError(
                f"{error}; make it again with: python -m tools.evaluate {shlex.quote(str(self.path))}"
            ) from error

    def read_training(self) -> Training | None:
        """Return how the run was trained so far; None before that."""
        return read(Training, self.training) if self.training.exists() else None

    def read_failure(self) -> Failure | None:
        """Return why the run failed when it was last trained; None if it did not."""
        return read(Failure, self.failure) if self.failure.exists() else None

    def locked(self, *, wait: bool = False) -> AbstractContextManager[None]:
        """Keep other processes from training or replacing the folder (:func:`latent_domains.runs.lock.locked`)."""
        return lock.locked(self.path, wait=wait)

    def is_locked(self) -> bool:
        """Say whether a process trains or replaces the folder."""
        return lock.is_locked(self.path)

    @property
    def solver(self) -> Path:
        return self.path / "solver.prototxt"

    def net(self, name: str) -> Path:
        """Return the file of the train, deploy or domains net, or of a test net (``experiment.task.tests``)."""
        return self.path / f"{name}.prototxt"

    @property
    def initial(self) -> Path:
        """The weights that training begins from (:mod:`latent_domains.runs.initial_weights`)."""
        return self.path / "initial.caffemodel"

    @property
    def log(self) -> Path:
        return self.path / "train.log"

    def log_text(self) -> str:
        """Return the text of the log; empty if there is no log."""
        expect_file(self.log, "caffe's log", missing_ok=True)
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def training(self) -> Path:
        """How the run was trained so far: time, threads and sessions."""
        return self.path / "training.json"

    @property
    def failure(self) -> Path:
        """Why the run failed; missing unless it did."""
        return self.path / "failure.json"

    @property
    def record_file(self) -> Path:
        return self.path / "record.json"

    @property
    def domain_labels(self) -> dict[str, Path]:
        """LMDB of the domain labels of each part of the sources; empty if the training net reads none."""
        parts = self.experiment.task.source_inputs if self.experiment.reads_domain_labels else ()
        return {part: self.path / "domain_labels" / part for part in parts}

    @property
    def domains_file(self) -> Path:
        """A copy of the CSV file with domains, if the run was given one."""
        return self.path / "domains.csv"

    @property
    def record_numbers(self) -> dict[str, Path]:
        """The file of record numbers for each part of the sources; empty if all records are read once."""
        parts = self.experiment.task.source_inputs if self.experiment.recipe.equal_classes else ()
        return {part: self.path / "records" / part / "numbers.txt" for part in parts}

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest complete snapshot."""
        return next(self.complete_snapshots(), None)

    def final_snapshot(self) -> Snapshot:
        """Return the snapshot of the experiment's last iteration. Refuses a run that has not reached it."""
        snapshot, last = self.latest_snapshot(), self.experiment.recipe.iterations
        if snapshot is None or snapshot.iteration < last:
            reached = snapshot.iteration if snapshot else 0
            train = f"python -m tools.train --resume {shlex.quote(str(self.path))}"
            if not self.record_file.exists():
                raise ProgramError(f"{self.path}: trained to iteration {reached} of {last}: train it first ({train})")
            raise ProgramError(  # --resume leaves such a run alone
                f"{self.path}: it is finished, but its last whole snapshot is of iteration {reached}, not {last}: "
                f"to have the weights, train another folder of this run, or delete the record and go on ({train})"
            )
        return snapshot

    def snapshots_after(self, iteration: int) -> Iterator[Path]:
        """Yield files named like snapshots of later iterations, which training writes."""
        return (file for file, number in self._snapshot_files() if number > iteration)

    def _snapshot_files(self, suffix: str = "") -> Iterator[tuple[Path, int]]:
        """Yield files named like snapshots that end in ``suffix``, with their iterations."""
        for file in self.snapshots.glob(f"model_iter_*{suffix}"):
            if match := re.fullmatch(r"model_iter_(\d+)", file.stem):
                yield file, int(match[1])

    def complete_snapshots(self) -> Iterator[Snapshot]:
        """Yield the complete snapshots, the newest first.

        Caffe writes snapshots in place, so a crash can leave a truncated one, which is skipped.
        """
        found = [
            Snapshot(iteration, state, state.with_suffix(".caffemodel"))
            for state, iteration in self._snapshot_files(".solverstate")
        ]
        for snapshot in sorted(found, key=lambda s: s.iteration, reverse=True):
            if _parses(snapshot.state, caffe_pb2.SolverState) and _parses(snapshot.model, caffe_pb2.NetParameter):
                yield snapshot


def _parses(file: Path, message: type[Message]) -> bool:
    if not file.is_file():  # a device may be endless
        return False
    status = file.stat()
    return _parses_as_of(file, message, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _parses_as_of(file: Path, message: type[Message], size: int, time: int) -> bool:
    """Say whether a file parses as ``message``. Cached, since tools.watch asks again and again about large files."""
    try:
        return message().ParseFromString(read_bytes(file)) > 0
    except (OSError, DecodeError):
        return False


def is_run_folder(path: Path) -> bool:
    """Say whether ``path`` is a run folder: it has an ``experiment.json``."""
    return (path / "experiment.json").is_file()


def find_runs(path: Path) -> list[Path]:
    """Return ``path`` itself if it is a run folder, else the run folders in it and in its folders, by name."""
    if is_run_folder(path):
        return [path]
    found = sorted(
        file.parent
        for pattern in ("*", "*/*")
        for file in path.glob(f"{pattern}/experiment.json")
        if not any(part.startswith(".") for part in file.relative_to(path).parts)  # half-written
    )
    if not found:
        raise ProgramError(f"{path}: no experiment.json in it or its folders, expected run folders (tools.write_run)")
    return found
