"""One process's share of a run: nets and solvers with an n-th of every domain's rows.

Caffe's Data layers deal their records out to the processes in turn. The shares of an iteration are together the batch
that one process would have, and an epoch has every image once.
"""

from pathlib import Path

from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.files import build_folder_aside
from latent_domains.common.program import ProgramError, from_root
from latent_domains.experiment.batches import FEWEST
from latent_domains.nets.family import make_nets
from latent_domains.runs.run_folder import RunFolder

TRAIN_NET, FIRST, OTHER = "train.prototxt", "solver.prototxt", "solver_without_tests.prototxt"
"""Files of RUN/share: each process's net, the solver of the first process, which tests too, and that of the others."""


def make_share(run: RunFolder, size: int) -> dict[str, str]:
    """Return the texts of the files of a share for ``size`` processes, by their names.

    Raises ProgramError naming the layer if ``size`` does not divide its rows or leaves a process fewer than FEWEST,
    and naming the net if it was changed by hand.
    """
    sizes = run.batch_rows()
    if text_format.Parse(_train_net(run, sizes), caffe_pb2.NetParameter()) != run.read_net("train"):
        raise ProgramError(
            f"{run.net('train')}: it was changed, and is not what experiment.json makes; only such a net can be "
            "shared out: write the run folder again (python -m tools.write_run --force)"
        )
    for part, rows in sizes.items():
        if rows % size or rows < FEWEST * size:
            raise ProgramError(
                f"{run.net('train')}: layer data_{part} has {rows} images in a batch, expected at least "
                f"{FEWEST * size}, and a multiple of {size}, to share out to {size} processes: write the run again "
                "with another --batch-size or --batch-split"
            )
    solver = run.read_solver()
    solver.train_net = from_root(run.path / "share" / TRAIN_NET)
    first = text_format.MessageToString(solver)
    for field in ("test_net", "test_iter"):  # the first process tests, and these nets take memory
        solver.ClearField(field)
    net = _train_net(run, {part: rows // size for part, rows in sizes.items()})
    return {TRAIN_NET: net, FIRST: first, OTHER: text_format.MessageToString(solver)}


def write_share(run: RunFolder, size: int) -> list[Path]:
    """Write what :func:`make_share` makes to RUN/share; return the solver of each of ``size`` processes."""
    texts = make_share(run, size)
    with build_folder_aside(run.path / "share", force=True) as aside:
        for name, text in texts.items():
            (aside / name).write_text(text)
    return [run.path / "share" / name for name in [FIRST, *[OTHER] * (size - 1)]]


def _train_net(run: RunFolder, sizes: dict[str, int]) -> str:
    known = {part: from_root(lmdb) for part, lmdb in run.domain_labels.items()}
    tests = {target: batch_size for target, (batch_size, _) in run.test_batches().items()}
    return make_nets(
        run.experiment, from_root(run.data_folder), sizes=sizes, test_batch_sizes=tests, domain_label_lmdbs=known
    )["train"]
