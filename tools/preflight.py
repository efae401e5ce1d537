"""Checks before training, each with a message that says what to do.

The layers import in the environment that caffe gets; Caffe has Python layers; solver and nets are this folder's and
what its description says; the LMDBs exist and hold what the nets expect. Without them Caffe aborts with a C++ check,
trains on the wrong data, or writes into another folder.
"""

import json
import subprocess
import sys

import caffe

from tools.caffe_process import Threads, caffe_binary, environment
from tools.lmdb_io import count, describe
from tools.program import ROOT, ProgramError, from_root
from tools.run_folder import RunFolder

# caffe_layers imports a layer when it is first asked for, and a layer numba when it is first set up.
_IMPORT = "import numba; from caffe_layers import DomainAssignmentLayer, EntropyLossLayer, MDALayer"

_AGAIN = "write the run folder again (python -m tools.write_run --force)"


def preflight(run: RunFolder) -> None:
    """Check Caffe, the layers and the data of a run folder. Raises ProgramError at the first fault."""
    check_caffe()
    check_nets(run)
    check_paths(run)
    check_data(run)
    if run.experiment.known_share:
        check_domain_labels(run)


def check_caffe() -> None:
    """Caffe is on PATH, was built with Python layers, and will be able to import every layer and numba."""
    caffe_binary()
    if "Python" not in caffe.layer_type_list():
        raise ProgramError("this Caffe was built without Python layers: rebuild it with -DBUILD_python_layer=ON")
    child = subprocess.run(
        [sys.executable, "-c", _IMPORT],
        env=environment(Threads(1, 1)),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if child.returncode:
        reason = child.stderr.strip().splitlines()[-1] if child.stderr.strip() else "no message"
        raise ProgramError(f"caffe_layers does not import: {reason} (run '. ./env.sh', or 'pip install .')")


def check_nets(run: RunFolder) -> None:
    """Nets and solver are there, and in what matters they are what ``experiment.json`` says."""
    phases = ("train", "test", "domains") if run.experiment.has_branch else ("train", "test")
    for file in (run.solver, *map(run.net, phases)):
        if not file.is_file():
            raise ProgramError(f"{file} is missing: {_AGAIN}")
    solver, experiment = run.read_solver(), run.experiment
    numbers = [
        ("max_iter", solver.max_iter, "iterations", experiment.iterations),
        ("random_seed", solver.random_seed, "seed", experiment.seed),
    ]
    for name, found, key, expected in numbers:
        if found != expected:
            raise ProgramError(f"{run.solver}: {name} is {found}, but {key} in experiment.json is {expected}: {_AGAIN}")
    expected_domains = set() if experiment.method == "source_only" else {experiment.num_domains}
    for phase in ("train", "test"):
        layers = [layer.python_param for layer in run.read_net(phase).layer if layer.python_param.layer == "MDALayer"]
        try:
            domains = {json.loads(layer.param_str)["num_domains"] for layer in layers}
        except (ValueError, KeyError, TypeError):
            continue  # the layer itself says what is wrong
        if domains != expected_domains:
            raise ProgramError(
                f"{run.net(phase)}: its MDALayers have num_domains {sorted(domains)}, but {experiment.method} with "
                f"k={experiment.k} in experiment.json makes it {sorted(expected_domains)}: {_AGAIN}"
            )


def check_paths(run: RunFolder) -> None:
    """The solver trains this folder's own nets and snapshots into it: that of a copied folder names the first one."""
    solver = run.read_solver()
    paths = [
        ("train_net", solver.train_net, run.net("train")),
        ("test_net", solver.test_net[0] if solver.test_net else "", run.net("test")),
        ("snapshot_prefix", solver.snapshot_prefix, run.snapshots / "model"),
    ]
    for name, found, expected in paths:
        if (ROOT / found).resolve() != expected.resolve():
            raise ProgramError(
                f"{run.solver}: {name} is {found!r}, expected {from_root(expected)!r}; "
                f"if the folder was moved or copied, move it back or {_AGAIN}"
            )


def check_data(run: RunFolder) -> None:
    """The LMDBs of all domains have the network's image shape, labels in range, and the expected test images."""
    data, target = run.experiment.data, run.experiment.target
    hint = f"build it with: python -m tools.get_data {data.name}"
    for domain, path in [*run.train_lmdbs.items(), (None, run.test_lmdb)]:
        if not (path / "data.mdb").is_file():
            raise ProgramError(f"{path}: no LMDB there; {hint}")
        found = describe(path)
        if (found.channels, found.height, found.width) != data.shape or not found.same_size:
            got = f"{found.channels}×{found.height}×{found.width}" if found.same_size else "of several sizes"
            raise ProgramError(f"{path}: images are {got}, expected {'×'.join(map(str, data.shape))}; {hint}")
        if domain != target and not 0 <= found.min_label <= found.max_label < data.classes:
            raise ProgramError(
                f"{path}: labels are {found.min_label} to {found.max_label}, expected 0 to {data.classes - 1}"
            )
    batch_size, batches = run.test_batches()
    images = count(run.test_lmdb)
    if images != batch_size * batches:
        raise ProgramError(
            f"{run.test_lmdb}: {images} images, but a test pass of {run.path} covers {batch_size * batches}: {_AGAIN}"
        )


def check_domain_labels(run: RunFolder) -> None:
    """Each source's label LMDB is as long as its image LMDB, so that the two stay in step."""
    for source in run.experiment.sources:
        images, labels = count(run.train_lmdbs[source]), count(run.domain_labels(source))
        if labels != images:
            raise ProgramError(f"{run.domain_labels(source)}: {labels} domain labels for {images} images of {source}")
