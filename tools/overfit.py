"""Does a net learn at all? Train mDA on a handful of real pictures until it knows them by heart.

    python -m tools.overfit resnet18 --images PACS

takes 8 pictures of each of PACS's 7 classes, 4 from each of two source domains (56 in all), and 28 of a third domain
as the unlabelled target, trains from random weights on the CPU, and fails if the accuracy on the 56 pictures, averaged
over the last iterations, is not above 90 %.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from google.protobuf import text_format

from tools.build_lmdb import build
from tools.caffe_log import curves
from tools.data import trees
from tools.data.published import PACS
from tools.experiment import make_experiment
from tools.files import write_text
from tools.image_datum import Format
from tools.image_list import Entry
from tools.program import ROOT, ProgramError, run
from tools.run_folder import RunFolder
from tools.train import add_training_options, train_all
from tools.write_run import write_run

EXPERIMENTS = {
    "resnet18": ("pacs", ("art_painting", "cartoon"), "photo"),
    "alexnet": ("office31", ("amazon", "dslr"), "webcam"),
}
"""For each net the dataset, sources and target of the experiment that is trained on these pictures."""

DOMAINS = ("art_painting", "cartoon", "photo")
"""The domains of PACS that are taken for the two sources and the target."""

EACH = 4
"""Pictures of each class and domain."""

GOAL = 0.9

LAST = 10
"""Iterations that are averaged at the end. A batch holds half of the pictures: each of them counts five times."""


def choose(images: Path, seed: int) -> dict[str, list[Entry]]:
    """EACH pictures of every class from each of DOMAINS. Raises ProgramError naming a class that has fewer."""
    tree = trees.read(images, PACS)
    rng = np.random.default_rng(seed)
    chosen: dict[str, list[Entry]] = {domain: [] for domain in DOMAINS}
    for domain in DOMAINS:
        for name in PACS.classes:
            entries = tree.images.get(domain, {}).get(name, [])
            if len(entries) < EACH:
                raise ProgramError(f"{images}: {len(entries)} images of {domain}/{name}, expected at least {EACH}")
            chosen[domain] += [entries[i] for i in rng.choice(len(entries), EACH, replace=False)]
    return chosen


def training_accuracy(run: RunFolder) -> float:
    """Accuracy on the source images of the last iterations, from a log that has every iteration's."""
    values = curves(run.log.read_text(errors="replace").splitlines())[("train", "source_accuracy")]
    return float(np.mean([values[iteration] for iteration in sorted(values)[-LAST:]]))


def display_every_iteration(run: RunFolder) -> None:
    """Make the run's log have the accuracy of every batch."""
    solver = run.read_solver()
    solver.display = 1
    write_text(run.solver, text_format.MessageToString(solver))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.overfit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", choices=EXPERIMENTS)
    parser.add_argument("--images", type=Path, required=True, metavar="DIR", help="PACS, or a sample of it")
    parser.add_argument("--seed", type=int, default=0, help="of the choice and of the weights (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--base-lr", type=float, help="initial learning rate (default: the recipe's)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "overfit", help="folder of the run and its LMDBs")
    parser.add_argument("--force", action="store_true", help="replace the run of an earlier call")
    add_training_options(parser, jobs=None)
    options = parser.parse_args()
    if options.iterations < LAST:
        raise ProgramError(f"iterations: got {options.iterations}, expected at least {LAST} (they are averaged)")
    runs, images = options.runs.resolve(), options.images.resolve()
    os.chdir(ROOT)  # the nets name their LMDBs relative to it
    dataset, sources, target = EXPERIMENTS[options.network]
    experiment = make_experiment(
        dataset,
        "mda",
        sources=sources,
        targets=(target,),
        seed=options.seed,
        iterations=options.iterations,
        base_lr=options.base_lr,
        batch_split="per_domain",
        batch_size=EACH * len(PACS.classes) // 2,
    )
    path, data = runs / options.network, runs / f"{options.network}_data"
    if path.exists():
        if not options.force:
            raise ProgramError(f"{path} exists: pass --force to replace it")
        with RunFolder.load(path).locked():  # nobody trains on the pictures that are replaced below
            pass
    rng = np.random.default_rng(options.seed)
    for part, entries in zip(experiment.parts, choose(images, options.seed).values(), strict=True):
        shuffled = [entries[i] for i in rng.permutation(len(entries))]
        build(shuffled, data / experiment.data.train_lmdb(part), Format((256, 256)), force=True)
    folder = write_run(experiment, path, data=data, solver_mode="CPU", force=options.force)
    display_every_iteration(folder)
    train_all([folder], threads=options.threads, solver_mode=options.solver_mode)
    accuracy = training_accuracy(folder)
    print(f"{options.network}: {100 * accuracy:.1f} % of the training pictures, mean of the last {LAST} iterations")
    if accuracy <= GOAL:
        raise ProgramError(f"expected more than {100 * GOAL:g} % (the log is {folder.log})")
    return 0


if __name__ == "__main__":
    run(main)
