"""Checks before training, each with a message that says what to do.

caffe_layers imports inside Caffe's interpreter; Caffe has Python layers; the LMDBs exist and hold what the nets
expect. Without them Caffe aborts with a C++ check, or trains on the wrong data.
"""

import subprocess
import sys

import caffe

from tools.caffe_process import Threads, caffe_binary, environment
from tools.lmdb_io import count, describe
from tools.program import ROOT, ProgramError
from tools.run_folder import RunFolder


def preflight(run: RunFolder) -> None:
    """Check Caffe, the layers and the data of a run folder. Raises ProgramError at the first fault."""
    check_caffe()
    for file in (run.solver, run.net("train"), run.net("test")):
        if not file.is_file():
            raise ProgramError(f"{file} is missing: write the run folder again (python -m tools.write_run --force)")
    check_data(run)
    if run.experiment.known_share:
        check_domain_labels(run)


def check_caffe() -> None:
    """Caffe is on PATH, was built with Python layers, and can import ``caffe_layers``."""
    caffe_binary()
    if "Python" not in caffe.layer_type_list():
        raise ProgramError("this Caffe was built without Python layers: rebuild it with -DBUILD_python_layer=ON")
    child = subprocess.run(
        [sys.executable, "-c", "import caffe_layers"],
        env=environment(Threads(1, 1)),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if child.returncode:
        reason = child.stderr.strip().splitlines()[-1] if child.stderr.strip() else "no message"
        raise ProgramError(f"caffe_layers does not import: {reason} (run '. ./env.sh', or 'pip install .')")


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
            f"{run.test_lmdb}: {images} images, but a test pass of {run.path} covers {batch_size * batches}: "
            f"write the run folder again (python -m tools.write_run --force)"
        )


def check_domain_labels(run: RunFolder) -> None:
    """Each source's label LMDB is as long as its image LMDB, so that the two stay in step."""
    for source in run.experiment.sources:
        images, labels = count(run.train_lmdbs[source]), count(run.domain_labels(source))
        if labels != images:
            raise ProgramError(f"{run.domain_labels(source)}: {labels} domain labels for {images} images of {source}")
