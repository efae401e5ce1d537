"""Write the run folder of an experiment: nets, solver, domain labels, numbers of records, description."""

from contextlib import nullcontext
from pathlib import Path

from latent_domains.common.files import build_folder_aside, is_absent
from latent_domains.common.program import ROOT, ProgramError, from_root
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.lmdb_io import count_filled
from latent_domains.experiment.batches import published_counts
from latent_domains.experiment.experiment import Experiment, differences
from latent_domains.nets.training_files import make_nets_and_solver
from latent_domains.runs.devices import choose_mode
from latent_domains.runs.domain_labels import write_labels
from latent_domains.runs.initial_weights import draw_weights
from latent_domains.runs.run_folder import RunFolder, is_run_folder


def write_run(
    experiment: Experiment,
    folder: Path,
    *,
    data: Path = ROOT / "data",
    solver_mode: str | None = None,
    force: bool = False,
) -> RunFolder:
    """Write the run folder of ``experiment``: nets, solver, initial weights, domain labels, ``experiment.json``.

    Paths in the nets and the solver are relative to the repository root if possible, so that ``caffe train -solver
    FOLDER/solver.prototxt`` works from there. The folder appears completely or not at all. ``data`` is the folder of
    the images' LMDBs. A test pass during training covers the test LMDB, except for less than a batch; if there is no
    LMDB yet, the published number of images. Batches that are divided by size need the LMDBs. ``solver_mode`` is GPU or
    CPU (None: see :func:`latent_domains.runs.devices.choose_mode`).

    ``force`` replaces a run folder, but not one that is being trained, and no other folder. Refuses a name with a
    comma.
    """
    run_folder = RunFolder(folder, experiment, data)
    check_name(folder)
    there = is_run_folder(folder)
    if force and not there and not is_absent(folder):
        raise ProgramError(f"{folder} is not a run folder (experiment.json is missing): --force does not replace it")
    with run_folder.locked() if there else nullcontext():
        _write(run_folder, solver_mode, force and there)
    return run_folder


def _write(run_folder: RunFolder, solver_mode: str | None, force: bool) -> None:
    experiment, data = run_folder.experiment, run_folder.data_folder
    test_counts = {
        target: _count(lmdb, experiment.data.test_count(target)) for target, lmdb in run_folder.test_lmdbs.items()
    }
    counts = {
        part: _count(run_folder.train_lmdbs[part], published)
        for part, published in published_counts(experiment).items()
    }
    nets, solver = make_nets_and_solver(
        experiment,
        from_root(data),
        lambda name: from_root(run_folder.net(name)),
        f"{from_root(run_folder.snapshots)}/model",
        counts=counts,
        test_counts=test_counts,
        domain_label_lmdbs={part: from_root(lmdb) for part, lmdb in run_folder.domain_labels.items()},
        record_files={part: from_root(file) for part, file in run_folder.record_numbers.items()},
        solver_mode=choose_mode(solver_mode, experiment.recipe.solver_mode),
        weights=from_root(run_folder.initial),
    )
    with build_folder_aside(run_folder.path, force=force) as aside:
        written = RunFolder(aside, experiment, data)
        for name, text in nets.items():
            written.net(name).write_text(text)
        written.solver.write_text(solver)
        draw_weights((nets[name] for name in ("deploy", "domains") if name in nets), experiment.seed, written.initial)
        written.snapshots.mkdir()
        write_labels(written)
        (aside / "experiment.json").write_text(run_folder.description())


def check_name(path: Path) -> None:
    """Raise ProgramError if the name of weights, or of a folder for them, has a comma."""
    if "," in from_root(path):
        raise ProgramError(f"{path}: expected a name without commas: Caffe takes them to part names of weights")


OTHER_PLACE = "move it away, or name another folder with --runs or --data"


def write_missing(
    experiment: Experiment, path: Path, *, data: Path, solver_mode: str | None = None, remedy: str = OTHER_PLACE
) -> RunFolder:
    """Return the run folder of ``experiment`` at ``path``; write it if it does not exist.

    Refuses, with the ``remedy``, a folder that contains another experiment or reads another data folder.
    """
    if is_absent(path):
        try:
            return write_run(experiment, path, data=data, solver_mode=solver_mode)
        except ProgramError:
            if not is_run_folder(path):  # or another process has written it meanwhile
                raise
    folder = RunFolder.load(path)
    check_holds(folder, experiment, data, remedy)
    return folder


def check_holds(folder: RunFolder, experiment: Experiment, data: Path, remedy: str = OTHER_PLACE) -> None:
    """Raise ProgramError, with the ``remedy``, if a run folder has another experiment or LMDBs outside ``data``."""
    found = differences(folder.experiment, experiment)
    if folder.data_folder.resolve() != data.resolve():
        found.append(("data", from_root(folder.data_folder), from_root(data)))
    if difference := [f"{name} is {there!r} there, {here!r} here" for name, there, here in found]:
        raise ProgramError(f"{folder.path} holds another experiment: {'; '.join(difference)} ({remedy})")


def _count(lmdb: Path, published: int) -> int:
    """Return the number of records in an LMDB, or the ``published`` number if there is no LMDB yet."""
    return count_filled(lmdb) if is_lmdb(lmdb) else published
