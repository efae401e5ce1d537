"""Valid inputs of every program, made once by the programs themselves; cases get copies."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from latent_domains.common.program import ROOT
from latent_domains.data.sets.published import PACS
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.tables.definition import load
from latent_domains.training.train import train_all
from tests.fixtures import tiny_table, write_tiny_digits
from tests.latent_domains.convert.fork.fork_nets import digits, save
from tests.latent_domains.convert.torch.lua import Builder, written
from tests.latent_domains.convert.torch.nets import RESNET18, trained
from tests.latent_domains.report.records import write_record
from tests.programs import program
from tests.shapes import CLASSES, LOOKS, plant_domain

TABLE = tiny_table("""\
  - name: mDA
    paper: {values: [82.5]}
    runs: {method: mda, batch_size: 8, iterations: 4}
  - name: shallow
    paper: {missing: none}
    baseline: {method: svm}
""")

SNAPSHOT = 2
"""Iterations between two snapshots."""


def make(base: Path) -> None:
    """Write everything that :mod:`tests.faults.programs` names into an empty folder."""
    for look in LOOKS:
        plant_domain(base / look, look, each=4)
    (base / "list.txt").write_text("".join(f"{name}/{i}.png {n}\n" for n, name in enumerate(CLASSES) for i in range(4)))
    (base / "classes.txt").write_text("".join(f"{name}\n" for name in CLASSES))
    for look in ("night", "day"):
        _done("build_lmdb", base / look, base / "lmdb" / look, "--resize", "28x28")
    _done("build_lmdb", base / "dusk", base / "other" / "lmdb", "--gray")
    pictures = sorted((base / "night").rglob("*.png"))
    for number, (domain, name) in enumerate((d, c) for d in PACS.domains for c in PACS.classes):
        (base / "pacs" / domain / name).mkdir(parents=True)
        shutil.copy(pictures[number % len(pictures)], base / "pacs" / domain / name)
    _digits(base)
    net = digits(k=2)
    save(net, net.weights(seed=0), base)
    for file in sorted(base.glob("net.*")):
        file.rename(base / f"fork{file.suffix}")
    _checkpoints(base)


def _done(name: str, *arguments: object) -> None:
    done = program(name, *arguments)
    if done.returncode:
        sys.exit(f"tools.{name}: {done.stderr}")


def _digits(base: Path) -> None:
    """Runs on the tiny digits: written, trained, and of another method; a table and its records; an exported model."""
    write_tiny_digits(base / "data")
    (base / "dataset.json").write_text(json.dumps(DATASETS["digits"].to_json()))
    experiment = make_experiment("digits", "mda", k=2, batch_size=8, iterations=4)
    _written(experiment, base / "written", base)
    run = _written(experiment, base / "run", base)
    other = _written(make_experiment("digits", "mda", k=3, batch_size=8, iterations=4), base / "other" / "run", base)
    train_all([run, other], threads=1)
    _done("export", base / "run", base / "model")
    _done("export", base / "other" / "run", base / "other" / "model")
    (base / "experiments").mkdir()
    (base / "experiments" / "tiny.yaml").write_text(TABLE)
    for one in load(base / "experiments" / "tiny.yaml").runs:
        if isinstance(one, Experiment):
            write_record(base / "runs" / "digits" / one.name / "record.json", one, 0.5)
    (base / "other" / "report.yaml").write_text((ROOT / "experiments" / "office31.yaml").read_text())


def _written(experiment: Experiment, folder: Path, base: Path) -> RunFolder:
    run = write_run(experiment, folder, data=base / "data", solver_mode="CPU")
    run.solver.write_text(run.solver.read_text().replace("snapshot: 500", f"snapshot: {SNAPSHOT}"))
    return run


def _checkpoints(base: Path) -> None:
    net = trained(RESNET18, 10).half()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.num_batches_tracked.fill_(1)
    torch.save(net.state_dict(), base / "resnet.pth")
    torch.save(net.state_dict(), base / "legacy.pth", _use_new_zipfile_serialization=False)
    save_file(net.state_dict(), base / "resnet.safetensors")
    (base / "resnet.t7").write_bytes(written(Builder(kind="Float").net(net.float())))
    np.save(base / "other" / "numbers.npy", np.zeros(9))


def main() -> None:
    base = Path(sys.argv[1])
    base.mkdir(parents=True)
    make(base)


if __name__ == "__main__":
    main()
