"""Turn the description of an experiment into a run folder with its own nets and solver.

Example: python -m tools.write_run --dataset digits --method mda --k 3 --seed 1 runs/digits/mda_k3_seed1
"""

import argparse
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tools import datasets
from tools.batches import published_counts
from tools.datasets import DATASETS, Dataset
from tools.domain_labels import UNKNOWN, choose_known, write_domain_labels
from tools.experiment import BATCH_SPLITS, GEOMETRIES, METHODS, Experiment, make_experiment
from tools.files import build_folder_aside, expect_file, read_json
from tools.lmdb_io import count, count_filled
from tools.nets import make_nets_and_solver
from tools.program import ROOT, ProgramError, from_root, run
from tools.run_folder import RunFolder
from tools.solver_mode import add_mode_option, choose_mode


def write_run(
    experiment: Experiment,
    folder: Path,
    *,
    data: Path = ROOT / "data",
    solver_mode: str | None = None,
    force: bool = False,
) -> RunFolder:
    """Write the run folder of ``experiment``: nets, solver, known domain labels, ``experiment.json``.

    Paths in the nets and the solver are relative to the repository root where they can be, so that
    ``caffe train -solver FOLDER/solver.prototxt`` works from there. The folder appears whole or not at all.
    ``data`` is the folder of the images' LMDBs; a test pass covers the test LMDB that is there exactly once (or, if
    it is not there yet, one with the published number of images), and a batch is shared out by the sizes of the LMDBs
    that are there. ``solver_mode`` is GPU or CPU (None: see :func:`tools.solver_mode.choose_mode`).
    Raises ProgramError if ``folder`` exists and ``force`` is false, if it is something else than a run folder or is
    being trained, or if an LMDB whose length is needed is missing.
    """
    run_folder = RunFolder(folder, experiment, data)
    if force and folder.exists():
        if not (folder / "experiment.json").is_file():
            raise ProgramError(f"{folder} is no run folder (it has no experiment.json): --force does not replace it")
        with run_folder.locked():
            pass
    test_counts = {
        target: _count(lmdb, experiment.data.test_count(target)) for target, lmdb in run_folder.test_lmdbs.items()
    }
    counts = {
        part: _count(run_folder.train_lmdbs[part], published)
        for part, published in published_counts(experiment).items()
    }
    known = {}
    if experiment.known_share:
        known = {source: from_root(run_folder.domain_labels(source)) for source in experiment.sources}
    nets, solver = make_nets_and_solver(
        experiment,
        from_root(data),
        lambda name: from_root(run_folder.net(name)),
        f"{from_root(run_folder.snapshots)}/model",
        counts=counts,
        test_counts=test_counts,
        domain_label_lmdbs=known,
        solver_mode=choose_mode(solver_mode, experiment.data.recipe.solver_mode),
    )
    with build_folder_aside(folder, force=force) as aside:
        written = RunFolder(aside, experiment, data)
        for name, text in nets.items():
            written.net(name).write_text(text)
        written.solver.write_text(solver)
        written.snapshots.mkdir()
        if known:
            _write_known_labels(written)
        (aside / "experiment.json").write_text(run_folder.description())
    return run_folder


def write_missing(experiment: Experiment, path: Path, *, data: Path, solver_mode: str | None = None) -> RunFolder:
    """The run folder of ``experiment`` at ``path``, written unless it stands there.

    An empty folder is none: Snakemake makes that of a job's output. Raises ProgramError if the folder there holds
    another experiment or another data folder's.
    """
    with suppress(OSError):
        path.rmdir()
    if not path.exists():
        return write_run(experiment, path, data=data, solver_mode=solver_mode)
    folder = RunFolder.load(path)
    if difference := _difference(_described(folder), _described(RunFolder(path, experiment, data))):
        raise ProgramError(
            f"{path} holds another experiment: {difference} (move it away or choose another folder with --runs)"
        )
    return folder


def _described(folder: RunFolder) -> dict[str, Any]:
    return {**folder.experiment.to_json(), "data": from_root(folder.data)}


def _difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    """What differs, in words; empty if nothing does."""
    return "; ".join(f"{key} is {there[key]!r} there, {here[key]!r} here" for key in there if there[key] != here[key])


def _count(lmdb: Path, published: int) -> int:
    """Records of an LMDB, or the published number if it is not there yet."""
    if not (lmdb / "data.mdb").exists():
        return published
    return count_filled(lmdb)


def _write_known_labels(folder: RunFolder) -> None:
    """One label LMDB per source, in the order of its images: its index where known, -1 elsewhere."""
    experiment = folder.experiment
    counts = [count(folder.train_lmdbs[source]) for source in experiment.sources]
    masks = choose_known(counts, experiment.known_share, experiment.seed)
    for domain, (source, known) in enumerate(zip(experiment.sources, masks, strict=True)):
        write_domain_labels(folder.domain_labels(source), np.where(known, domain, UNKNOWN).tolist())


def add_experiment_options(parser: argparse.ArgumentParser) -> None:
    """The options that describe an experiment, for every program that takes one."""
    parser.add_argument(
        "--dataset", type=_dataset, default="digits", metavar=f"{{{','.join(DATASETS)},FILE}}",
        help="one of the paper's, or the description of another one (dataset.json, by python -m tools.adapt); "
        "default: %(default)s",
    )  # fmt: skip
    parser.add_argument("--sources", metavar="A+B+…", help="source domains (default: the paper's)")
    parser.add_argument("--targets", "--target", metavar="A+…", help="target domain or domains (default: the paper's)")
    parser.add_argument(
        "--k-target", type=int, help="target domains of mDA, latent if more than 1 (default: the number of targets)"
    )
    parser.add_argument(
        "--undivided", action="store_true",
        help="the sources come as one LMDB of unknown mixture, named A+B+… (python -m tools.join_lmdbs)",
    )
    parser.add_argument(
        "--test-mirror", action="store_true", help="mirror test images at random, as the authors' ResNet net does"
    )
    add_method_options(parser)


def _dataset(text: str) -> Dataset:
    """A dataset by its name, or the one that a file describes."""
    if not text.endswith(".json"):
        if text not in DATASETS:
            raise argparse.ArgumentTypeError(f"got {text!r}, expected one of {', '.join(DATASETS)}, or FILE.json")
        return DATASETS[text]
    try:
        expect_file(Path(text), "the description of a dataset")
        return datasets.from_json(read_json(Path(text), ()))
    except ProgramError as error:
        raise argparse.ArgumentTypeError(f"{text}: {str(error).removeprefix(f'{text}: ')}") from error


def add_method_options(parser: argparse.ArgumentParser) -> None:
    """The options that say what is done with a dataset, whichever it is."""
    parser.add_argument("--method", choices=METHODS, default="mda", help="default: %(default)s")
    parser.add_argument("--k", type=int, help="latent source domains of mda (default: the number of sources)")
    parser.add_argument(
        "--known-share", type=float, default=0.0, metavar="SHARE",
        help="share of source images whose domain label is known, 0 to 1 (default: 0)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of initialisation and of the known labels")
    parser.add_argument("--iterations", type=int, help="training iterations (default: the dataset's)")
    parser.add_argument("--batch-size", type=int, help="images in a batch, see --batch-split (default: the dataset's)")
    parser.add_argument(
        "--batch-split", choices=BATCH_SPLITS,
        help="whether --batch-size counts the images of each domain, or those of the whole batch, shared out equally "
        "or by the domains' sizes (default: the dataset's)",
    )
    parser.add_argument("--iter-size", type=int, help="batches that make one iteration (default: the dataset's)")
    parser.add_argument("--base-lr", type=float, help="initial learning rate (default: the dataset's)")
    parser.add_argument(
        "--geometry", choices=GEOMETRIES,
        help="of ResNet18: Torch's own, or that of the widespread Caffe model (default: torch)",
    )
    parser.add_argument("--lambda-c", type=float, help="weight of the target's class entropy (default: the paper's)")
    parser.add_argument("--lambda-d", type=float, help="weight of the domain entropy (default: the paper's)")
    parser.add_argument("--lambda-t", type=float, help="weight of the domain log-loss (default: the paper's)")
    parser.add_argument(
        "--lambda-b", type=float, default=0.0,
        help="weight of the balance term, which rewards using all k domains; not the paper's (default: 0, off)",
    )


def method_options(options: argparse.Namespace) -> dict[str, Any]:
    """What :func:`add_method_options`' options say, by the names of :func:`make_experiment`."""
    names = (
        "method", "k", "known_share", "seed", "iterations", "batch_size", "batch_split", "iter_size", "base_lr",
        "geometry", "lambda_c", "lambda_d", "lambda_t", "lambda_b",
    )  # fmt: skip
    return {name: getattr(options, name) for name in names}


def experiment_from_options(options: argparse.Namespace) -> Experiment:
    """The experiment that :func:`add_experiment_options`' options describe."""
    return make_experiment(
        options.dataset,
        sources=tuple(options.sources.split("+")) if options.sources is not None else None,
        targets=tuple(options.targets.split("+")) if options.targets is not None else None,
        k_target=options.k_target,
        undivided=options.undivided,
        test_mirror=options.test_mirror,
        **method_options(options),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.write_run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_experiment_options(parser)
    parser.add_argument("folder", type=Path, nargs="?", help="run folder (default: runs/DATASET/NAME)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder of the LMDBs (default: data)")
    add_mode_option(parser)
    parser.add_argument("--force", action="store_true", help="replace an existing run folder, snapshots included")
    options = parser.parse_args()
    experiment = experiment_from_options(options)
    folder = options.folder or ROOT / "runs" / experiment.dataset / experiment.name
    write_run(experiment, folder, data=options.data, solver_mode=options.solver_mode, force=options.force)
    print(f"wrote {folder}; train it with: python -m tools.train {folder}")
    return 0


if __name__ == "__main__":
    run(main)
