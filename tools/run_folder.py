"""A run folder: one experiment with its own nets and solver, its log, its snapshots and its record."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from caffe.proto import caffe_pb2
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from tools.experiment import Experiment, from_json
from tools.program import ROOT, ProgramError, from_root


@dataclass(frozen=True)
class Snapshot:
    """A whole snapshot of the solver: both of its files are there and readable."""

    iteration: int
    state: Path
    model: Path


@dataclass(frozen=True)
class RunFolder:
    """Names of what a run folder holds. ``experiment.json`` is what makes a folder one."""

    path: Path
    experiment: Experiment
    data: Path

    @classmethod
    def load(cls, path: Path) -> "RunFolder":
        """Open an existing run folder. Raises ProgramError naming the file if it is none or was damaged."""
        file = path / "experiment.json"
        if not file.is_file():
            raise ProgramError(f"{path}: no experiment.json in it, expected a run folder (python -m tools.write_run)")
        try:
            values = json.loads(file.read_text())
            return cls(path, from_json(values["experiment"]), ROOT / values["data"])
        except (json.JSONDecodeError, KeyError, TypeError, ProgramError) as error:
            raise ProgramError(f"{file}: {error}") from error

    def description(self) -> str:
        """The text of ``experiment.json``."""
        values = {"experiment": self.experiment.to_json(), "data": from_root(self.data)}
        return json.dumps(values, indent=2) + "\n"

    @property
    def train_lmdbs(self) -> dict[str, Path]:
        """LMDBs of the training images of the sources and, unless source_only, of the target."""
        experiment = self.experiment
        target = () if experiment.method == "source_only" else (experiment.target,)
        return {domain: self.data / experiment.data.train_lmdb(domain) for domain in (*experiment.sources, *target)}

    @property
    def test_lmdb(self) -> Path:
        """LMDB of the target's test images."""
        return self.data / self.experiment.data.test_lmdb(self.experiment.target)

    def test_batches(self) -> tuple[int, int]:
        """Batch size and number of batches of a test pass, as the run's own net and solver say."""
        net, solver = caffe_pb2.NetParameter(), caffe_pb2.SolverParameter()
        text_format.Parse(self.net("test").read_text(), net)
        text_format.Parse(self.solver.read_text(), solver)
        return net.layer[0].data_param.batch_size, solver.test_iter[0]

    @property
    def solver(self) -> Path:
        return self.path / "solver.prototxt"

    def net(self, phase: str) -> Path:
        """The file of the train, test, deploy or domains net."""
        return self.path / f"{phase}.prototxt"

    @property
    def log(self) -> Path:
        return self.path / "train.log"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def training(self) -> Path:
        """Time and threads of the training so far."""
        return self.path / "training.json"

    @property
    def record(self) -> Path:
        return self.path / "record.json"

    def domain_labels(self, source: str) -> Path:
        """LMDB of a source's known domain labels."""
        return self.path / "domain_labels" / source

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot that is whole.

        Caffe writes snapshots in place, so one that was cut off by a crash is possible: it is passed over for the
        one before it.
        """
        found = []
        for state in self.snapshots.glob("model_iter_*.solverstate"):
            match = re.fullmatch(r"model_iter_(\d+)\.solverstate", state.name)
            if match:
                found.append(Snapshot(int(match[1]), state, state.with_suffix(".caffemodel")))
        for snapshot in sorted(found, key=lambda s: s.iteration, reverse=True):
            if _parses(snapshot.state, caffe_pb2.SolverState()) and _parses(
                snapshot.model, caffe_pb2.NetParameter()
            ):
                return snapshot
        return None


def _parses(file: Path, message: caffe_pb2.SolverState | caffe_pb2.NetParameter) -> bool:
    try:
        return message.ParseFromString(file.read_bytes()) > 0
    except (OSError, DecodeError):
        return False
