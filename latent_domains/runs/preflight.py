"""Checks before training, each with a message that says what to do.

They check that the layers can be imported in caffe's environment; that Caffe has Python layers; that solver and nets
belong to this folder and agree with its description; that the LMDBs exist and contain what the nets expect. Else Caffe
would abort in C++, train on the wrong data, or write into another folder.
"""

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import caffe
from caffe.proto import caffe_pb2
from google.protobuf.descriptor import FieldDescriptor
from tqdm import tqdm

from latent_domains.common.caffe_process import caffe_binary, ending_with_parent, environment
from latent_domains.common.program import ROOT, ProgramError, from_root
from latent_domains.common.wording import by
from latent_domains.data.equal_classes import check_numbers
from latent_domains.data.lmdb_folder import check_up_to_date, is_lmdb
from latent_domains.data.lmdb_io import Description, contents, count, describe
from latent_domains.data.lmdb_plans import common_classes, common_features, features_of
from latent_domains.experiment.batches import batch_sizes, made_by, published_counts
from latent_domains.experiment.datasets import Dataset
from latent_domains.models.graph import kind
from latent_domains.nets.losses import loss_weights
from latent_domains.runs.devices import check_available, mode_of
from latent_domains.runs.provenance import AGAIN, check_same_images
from latent_domains.runs.run_folder import RunFolder

# caffe_layers imports a layer when it is first used, and a layer imports numba in its setup.
_IMPORT = "import numba; from caffe_layers import *"

# Fields of a solver that anybody may change: they say where, how often and how loudly, or others check them.
_FREE = frozenset(
    {
        *("net", "train_net", "test_net", "weights", "snapshot_prefix", "solver_mode", "device_id"),
        *("display", "average_loss", "debug_info", "snapshot", "snapshot_diff"),
        *("test_iter", "test_interval", "test_initialization", "test_compute_loss"),
        *("gamma", "power", "stepsize"),  # a run that was given more iterations by hand keeps its schedule
    }
)


def preflight(run: RunFolder, mode: str | None = None) -> None:
    """Check Caffe, the layers and the data of a run folder; raise ProgramError at the first fault.

    ``mode`` (GPU or CPU) is that of the coming training, by default the solver's.
    """
    check_caffe()
    check_nets(run)
    check_mode(run, mode)
    _check_paths(run)
    check_data(run)
    _check_domain_labels(run)
    _check_records(run)


def check_caffe() -> None:
    """Check that Caffe is on PATH, has Python layers, and can import every layer and numba."""
    caffe_binary()
    if "Python" not in caffe.layer_type_list():
        raise ProgramError("this Caffe was built without Python layers: rebuild it with -DBUILD_python_layer=ON")
    _check_imports()


@cache
def _check_imports() -> None:
    """Start Python in caffe's environment to import the layers: once for any number of runs."""
    tqdm.write("checking that caffe can import its layers …")
    child = subprocess.run(
        ending_with_parent([sys.executable, "-c", _IMPORT]),
        env=environment(1),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if child.returncode:
        reason = child.stderr.strip().splitlines()[-1] if child.stderr.strip() else "no message"
        raise ProgramError(f"caffe_layers does not import: {reason} (run '. ./env.sh', or 'pip install .')")


def check_nets(run: RunFolder) -> None:
    """Check that nets and solver exist and fit the important fields of ``experiment.json``."""
    names = ["train", *run.experiment.task.tests, *(["domains"] if run.experiment.method.predicts_domains else [])]
    for file in (run.solver, *map(run.net, names), run.initial):
        if not file.is_file():
            raise ProgramError(f"{file} is missing: {AGAIN}")
    _check_solver(run)
    experiment = run.experiment
    expected_domains = {experiment.num_domains} if experiment.method.sees_target else set()
    for name in ("train", *experiment.task.tests):
        layers = [layer.python_param for layer in run.read_net(name).layer if kind(layer) == "MDALayer"]
        try:
            domains = {json.loads(layer.param_str)["num_domains"] for layer in layers}
        except (ValueError, KeyError, TypeError):
            continue  # the layer itself says what is wrong
        if domains != expected_domains:
            raise ProgramError(
                f"{run.net(name)}: its MDALayers have num_domains {sorted(domains, key=str)}, expected "
                f"{sorted(expected_domains)} by experiment.json (k={experiment.k}, k_target={experiment.k_target}): "
                f"{AGAIN}"
            )
    _check_train_net(run)


def _check_solver(run: RunFolder) -> None:
    """Check that the solver agrees with ``experiment.json``, which the record repeats, and writes our snapshots."""
    solver, recipe = run.read_solver(), run.experiment.recipe
    described = caffe_pb2.SolverParameter(
        type="SGD",
        max_iter=recipe.iterations,
        random_seed=run.experiment.seed,
        base_lr=recipe.base_lr,
        lr_policy=recipe.lr_policy,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        iter_size=recipe.iter_size,
    )
    for field in described.DESCRIPTOR.fields:
        found, expected = getattr(solver, field.name), getattr(described, field.name)  # both in Caffe's float32
        if field.name not in _FREE and found != expected:
            raise ProgramError(
                f"{run.solver}: {field.name} is {_said(field, found)}, expected {_said(field, expected)} by "
                f"experiment.json: {AGAIN}"
            )


def _check_train_net(run: RunFolder) -> None:
    """Check that weights of losses and numbers of images in batches agree with ``experiment.json``."""
    experiment, net = run.experiment, run.net("train")
    weights = loss_weights(experiment)
    for layer in run.read_net("train").layer:
        found = layer.loss_weight[0] if layer.loss_weight else float(layer.type != "Python")  # as Caffe takes it
        if layer.name in weights and not math.isclose(found, weights[layer.name], rel_tol=1e-6):
            raise ProgramError(
                f"{net}: loss_weight of {layer.name} is {found:.7g}, expected {weights[layer.name]:.7g} by "
                f"experiment.json: {AGAIN}"
            )
    if experiment.recipe.batch_split != "by_size":
        expected = batch_sizes(experiment, {})
        for part, rows in run.batch_rows().items():
            if rows != expected[part]:
                raise ProgramError(
                    f"{net}: a batch has {rows} images of {part}, expected {expected[part]} by experiment.json: {AGAIN}"
                )


def _said(field: FieldDescriptor, value: Any) -> str:
    if field.enum_type:
        return field.enum_type.values_by_number[value].name
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def check_mode(run: RunFolder, mode: str | None = None) -> None:
    """Check that this Caffe has ``mode``, or else the solver's mode."""
    check_available(mode or mode_of(run), f"{run.path} was to be computed on the GPU")


def _check_paths(run: RunFolder) -> None:
    """Check that the solver names this folder's nets and snapshots, and the nets the LMDBs of ``experiment.json``.

    In a copied folder the solver names the original's.
    """
    solver = run.read_solver()
    paths = [
        ("train_net", [solver.train_net], [run.net("train")]),
        ("test_net", list(solver.test_net), list(run.test_nets.values())),
        ("snapshot_prefix", [solver.snapshot_prefix], [run.snapshots / "model"]),
        ("weights", list(solver.weights), [run.initial]),
    ]
    for name, found, files in paths:
        if found != (expected := list(map(from_root, files))):
            raise ProgramError(
                f"{run.solver}: {name} is {', '.join(map(repr, found))}, expected {', '.join(map(repr, expected))}; "
                f"if the folder was moved or copied, move it back or {AGAIN}"
            )
    for net in ("train", *run.experiment.task.tests):
        _check_sources(run, net, run.lmdbs_of(net))


def check_training_images(run: RunFolder) -> None:
    """Check that the training net reads the images of ``experiment.json``, which a record repeats.

    Domain labels are not checked: they are in the run folder, and a copy of it names those of the original.
    """
    _check_sources(run, "train", run.lmdbs_of_images)


def _check_sources(run: RunFolder, net: str, lmdbs: Mapping[str, Path]) -> None:
    """Check that the Data layers of a net read the LMDBs that belong to their names."""
    for layer in run.read_net(net).layer:
        lmdb, source = lmdbs.get(layer.name), ROOT / layer.data_param.source
        if lmdb is not None and source.resolve() != lmdb.resolve():
            raise ProgramError(
                f"{run.net(net)}: layer {layer.name} reads {source}, expected {lmdb} by experiment.json: {AGAIN}"
            )


def check_data(run: RunFolder) -> None:
    """Check the LMDBs of all domains: image shape, labels, numbers of test images.

    An LMDB made from others must fit their present contents. If the run was trained, all must be those of its training.
    """
    experiment, data = run.experiment, run.experiment.data
    # Without a test split a target's LMDB is both the training and the test one: it is checked once.
    parts = {path: part for part, path in [*run.train_lmdbs.items(), *run.test_lmdbs.items()]}
    tests = run.test_lmdbs.values()
    labelled = [path for path, part in parts.items() if part in experiment.task.source_inputs or path in tests]
    for path, part in parts.items():
        hint = f"build it with: {made_by(experiment, run.data_folder, part)}"
        if not is_lmdb(path):
            raise ProgramError(f"{path}: no LMDB there; {hint}")
        status = (path / "data.mdb").stat()
        found = _described(path, status.st_ino, status.st_size, status.st_mtime_ns)
        if found.shape != data.stored_shape or not found.same_size:
            got = by(found.shape) if found.same_size else "of several sizes or kinds"
            raise ProgramError(f"{path}: images are {got}, expected {by(data.stored_shape)}; {hint}")
        least, most = min(found.class_counts), max(found.class_counts)
        if path in labelled and not 0 <= least <= most < data.classes:
            raise ProgramError(f"{path}: labels are {least} to {most}, expected 0 to {data.classes - 1}")
        check_up_to_date(path, f"{hint} --force")
    check_meaning(list(parts), labelled, data)
    for target, (batch_size, batches) in run.test_batches().items():
        lmdb = run.test_lmdbs[target]
        images = count(lmdb)
        if images != batch_size * batches and (batch_size, batches) != data.test_batches(images):
            raise ProgramError(
                f"{lmdb}: {images} images, but a test pass of {run.path} covers {batch_size * batches}: {AGAIN}"
            )
    if run.record_file.exists() or run.latest_snapshot():
        check_same_images(run)


def check_meaning(lmdbs: Sequence[Path], labelled: Sequence[Path], data: Dataset) -> None:
    """Check that features come from the dataset's backbone, all made alike; that labels mean one class in ``labelled``.

    LMDBs without notes about this pass; a line says so if others have them.
    """
    for path in lmdbs if data.features else ():
        if (backbone := features_of(path).get("backbone")) not in (None, data.features.backbone):
            raise ProgramError(
                f"{path}: features of {backbone}, but the run is one on those of {data.features.backbone}; build it "
                f"with: {data.made_by}"
            )
    if data.features:
        common_features(lmdbs)
    common_classes(labelled)


@cache
def _described(path: Path, *_file: int) -> Description:
    """Describe an LMDB. Cached for the same file, so that a process that trains and evaluates reads it once."""
    return describe(path)


def _check_domain_labels(run: RunFolder) -> None:
    """Check that domain labels and images are of the same records, so that the two LMDBs stay in step."""
    for part, lmdb in run.domain_labels.items():
        images, labels = count(run.train_lmdbs[part]), count(lmdb)
        if labels != images:
            raise ProgramError(f"{lmdb}: {labels} domain labels for {images} images of {part}")
        check_up_to_date(lmdb, AGAIN, contents)


def _check_records(run: RunFolder) -> None:
    """Check that the numbers of records were made for the records that are now in the LMDBs."""
    for part, file in run.record_numbers.items():
        check_numbers(file, run.train_lmdbs[part], AGAIN)


def incompleteness(folder: RunFolder) -> str | None:
    """Describe the LMDBs of a run that have another number of images than published; None if there are none."""
    experiment = folder.experiment
    published = {folder.train_lmdbs[part]: images for part, images in published_counts(experiment).items()}
    published |= {lmdb: experiment.data.test_count(target) for target, lmdb in folder.test_lmdbs.items()}
    found = {lmdb: count(lmdb) for lmdb in published}
    different = [
        f"{lmdb.name} has {found[lmdb]} images, published {images}"
        for lmdb, images in published.items()
        if found[lmdb] != images
    ]
    return "; ".join(different) or None
