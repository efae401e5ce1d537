"""One process's share of a run: nets and solvers with an n-th of every domain's rows.

Caffe's Data layers deal their records out to the processes in turn, so that an iteration's shares are together the
batch that one process would have had, and an epoch has every image once.
"""

from pathlib import Path

from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.files import build_folder_aside
from latent_domains.common.program import ProgramError, from_root
from latent_domains.experiment.batches import FEWEST
from latent_domains.nets.family import make_nets
from latent_domains.runs.run_folder import RunFolder


class Share:
    """The files of a share: ``train`` is each process's net, ``first`` the solver of the one that tests too.

    The others' solver, ``other``, makes no test nets.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.train = folder / "train.prototxt"
        self.first = folder / "solver.prototxt"
        self.other = folder / "solver_without_tests.prototxt"

    def solvers(self, size: int) -> list[Path]:
        """The solver of each of ``size`` processes."""
        return [self.first, *[self.other] * (size - 1)]


def make_share(run: RunFolder, size: int) -> tuple[str, str, str]:
    """Texts of the train net of one of ``size`` processes, of the first one's solver and of the others'.

    Raises ProgramError naming the layer if ``size`` does not divide its rows or leaves a process fewer than FEWEST,
    and naming the net if it is not what the run's description makes, since a share of it cannot be made from there.
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
    share = Share(run.path / "share")
    solver = run.read_solver()
    solver.train_net = from_root(share.train)
    others = caffe_pb2.SolverParameter()
    others.CopyFrom(solver)
    for field in ("test_net", "test_iter"):  # the first process tests, and these nets take memory
        others.ClearField(field)
    net = _train_net(run, {part: rows // size for part, rows in sizes.items()})
    return net, text_format.MessageToString(solver), text_format.MessageToString(others)


def write_share(run: RunFolder, size: int) -> Share:
    """Write what :func:`make_share` makes into the run folder, in place of the share that was there."""
    share = Share(run.path / "share")
    texts = make_share(run, size)
    with build_folder_aside(share.folder, force=True) as aside:
        written = Share(aside)
        for file, text in zip((written.train, written.first, written.other), texts, strict=True):
            file.write_text(text)
    return share


def _train_net(run: RunFolder, sizes: dict[str, int]) -> str:
    known = {part: from_root(lmdb) for part, lmdb in run.domain_labels.items()}
    tests = {target: batch_size for target, (batch_size, _) in run.test_batches().items()}
    return make_nets(
        run.experiment, from_root(run.data_folder), sizes=sizes, test_batch_sizes=tests, domain_label_lmdbs=known
    )["train"]
