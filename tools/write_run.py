"""Turn the description of an experiment into a run folder with its own nets and solver.

Example: python -m tools.write_run --dataset digits --method mda --k 3 --seed 1 runs/digits/mda_k3_seed1
"""

import argparse
from pathlib import Path

import numpy as np

from tools.datasets import DATASETS, test_batches
from tools.domain_labels import UNKNOWN, choose_known, write_domain_labels
from tools.experiment import METHODS, Experiment, make_experiment
from tools.files import build_folder_aside
from tools.lmdb_io import count
from tools.nets import make_nets, make_solver
from tools.program import ROOT, ProgramError, from_root, run
from tools.run_folder import RunFolder


def write_run(
    experiment: Experiment, folder: Path, *, data: Path = ROOT / "data", force: bool = False
) -> RunFolder:
    """Write the run folder of ``experiment``: nets, solver, known domain labels, ``experiment.json``.

    Paths in the nets and the solver are relative to the repository root where they can be, so that
    ``caffe train -solver FOLDER/solver.prototxt`` works from there. The folder appears whole or not at all.
    ``data`` is the folder of the images' LMDBs; a test pass covers the test LMDB that is there exactly once (or, if
    it is not there yet, one with the published number of images).
    Raises ProgramError if ``folder`` exists and ``force`` is false, if it is something else than a run folder or is
    being trained, or if an LMDB whose length is needed is missing.
    """
    run_folder = RunFolder(folder, experiment, data)
    if force and folder.exists():
        if not (folder / "experiment.json").is_file():
            raise ProgramError(f"{folder} is no run folder (it has no experiment.json): --force does not replace it")
        with run_folder.locked():
            pass
    test_images = experiment.data.test_counts[experiment.target]
    if (run_folder.test_lmdb / "data.mdb").exists():
        test_images = count(run_folder.test_lmdb)
        if test_images == 0:
            raise ProgramError(f"{run_folder.test_lmdb}: an LMDB without records, expected at least one")
    batch_size, iterations = test_batches(test_images)
    known = {}
    if experiment.known_share:
        known = {source: from_root(run_folder.domain_labels(source)) for source in experiment.sources}
    nets = make_nets(experiment, from_root(data), test_batch_size=batch_size, domain_label_lmdbs=known)
    solver = make_solver(
        experiment,
        train_net=from_root(run_folder.net("train")),
        test_net=from_root(run_folder.net("test")),
        test_iterations=iterations,
        snapshot_prefix=f"{from_root(run_folder.snapshots)}/model",
    )
    with build_folder_aside(folder, force=force) as aside:
        written = RunFolder(aside, experiment, data)
        for phase in ("train", "test", "deploy", "domains"):
            text = getattr(nets, phase)
            if text is not None:
                written.net(phase).write_text(text)
        written.solver.write_text(solver)
        written.snapshots.mkdir()
        if known:
            _write_known_labels(written)
        (aside / "experiment.json").write_text(run_folder.description())
    return run_folder


def _write_known_labels(folder: RunFolder) -> None:
    """One label LMDB per source, in the order of its images: its index where known, -1 elsewhere."""
    experiment = folder.experiment
    counts = [count(folder.train_lmdbs[source]) for source in experiment.sources]
    masks = choose_known(counts, experiment.known_share, experiment.seed)
    for domain, (source, known) in enumerate(zip(experiment.sources, masks, strict=True)):
        write_domain_labels(folder.domain_labels(source), np.where(known, domain, UNKNOWN).tolist())


def add_experiment_options(parser: argparse.ArgumentParser) -> None:
    """The options that describe an experiment, for every program that takes one."""
    parser.add_argument("--dataset", choices=DATASETS, default="digits", help="default: %(default)s")
    parser.add_argument("--method", choices=METHODS, default="mda", help="default: %(default)s")
    parser.add_argument("--sources", nargs="+", metavar="DOMAIN", help="source domains (default: the paper's)")
    parser.add_argument("--target", metavar="DOMAIN", help="target domain (default: the paper's)")
    parser.add_argument("--k", type=int, help="latent source domains of mda (default: the number of sources)")
    parser.add_argument(
        "--known-share", type=float, default=0.0, metavar="SHARE",
        help="share of source images whose domain label is known, 0 to 1 (default: 0)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of initialisation and of the known labels")
    parser.add_argument("--iterations", type=int, help="training iterations (default: the dataset's)")
    parser.add_argument("--batch-size", type=int, help="images per domain in a batch (default: the dataset's)")
    parser.add_argument("--lambda-c", type=float, help="weight of the target's class entropy (default: the paper's)")
    parser.add_argument("--lambda-d", type=float, help="weight of the domain entropy (default: the paper's)")
    parser.add_argument("--lambda-t", type=float, help="weight of the domain log-loss (default: the paper's)")
    parser.add_argument(
        "--lambda-b", type=float, default=0.0,
        help="weight of the balance term, which rewards using all k domains; not the paper's (default: 0, off)",
    )


def experiment_from_options(options: argparse.Namespace) -> Experiment:
    """The experiment that :func:`add_experiment_options`' options describe."""
    return make_experiment(
        options.dataset,
        options.method,
        sources=tuple(options.sources) if options.sources else None,
        target=options.target,
        k=options.k,
        known_share=options.known_share,
        seed=options.seed,
        iterations=options.iterations,
        batch_size=options.batch_size,
        lambda_c=options.lambda_c,
        lambda_d=options.lambda_d,
        lambda_t=options.lambda_t,
        lambda_b=options.lambda_b,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.write_run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_experiment_options(parser)
    parser.add_argument("folder", type=Path, nargs="?", help="run folder (default: runs/DATASET/NAME)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder of the LMDBs (default: data)")
    parser.add_argument("--force", action="store_true", help="replace an existing run folder, snapshots included")
    options = parser.parse_args()
    experiment = experiment_from_options(options)
    folder = options.folder or ROOT / "runs" / experiment.dataset / experiment.name
    write_run(experiment, folder, data=options.data, force=options.force)
    print(f"wrote {folder}; train it with: python -m tools.train {folder}")
    return 0


if __name__ == "__main__":
    run(main)
