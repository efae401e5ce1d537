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

from latent_domains.common.program import ROOT, ProgramError, run
from latent_domains.data.build import build
from latent_domains.data.image_datum import Format
from latent_domains.data.sets.published import PACS
from latent_domains.experiment.datasets import of_network
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training.options import add_training_options
from latent_domains.training.overfit import (
    EACH,
    GOAL,
    LAST,
    NETS,
    choose,
    display_every_iteration,
    training_accuracy,
)
from latent_domains.training.train import train_all


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.overfit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", choices=NETS)
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
    dataset = of_network(options.network)
    experiment = make_experiment(
        dataset,
        "mda",
        sources=dataset.domains[:2],
        targets=dataset.domains[2:3],
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
