"""Test whether a net learns at all: train mDA on a few real pictures until it knows them by heart.

    python -m tests.overfit resnet18 --images PACS

Take 8 pictures of each of PACS's 7 classes, 4 from each of two source domains (56 in all), and 28 of a third domain as
the unlabelled target. Train from random weights on the CPU, and fail if the accuracy on the 56 pictures, averaged over
the last iterations, is not above 90 %.
"""

from pathlib import Path

import tools  # noqa: F401  # before anything imports caffe or OpenCV

# isort: split
import numpy as np
from google.protobuf import text_format

from latent_domains.common.arguments import natural, positive, program_parser
from latent_domains.common.caffe_log import curves
from latent_domains.common.files import write_text
from latent_domains.common.program import ROOT, ProgramError, run
from latent_domains.data.image_datum import Format
from latent_domains.data.image_list import Entry
from latent_domains.data.image_lmdb import build
from latent_domains.data.sets.image_sets import entries, read_domains
from latent_domains.data.sets.published import PACS
from latent_domains.experiment.datasets import of_network
from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.networks import NETWORKS
from latent_domains.runs.devices import add_training_options
from latent_domains.runs.lock import check_unlocked
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all

NETS = tuple(name for name in NETWORKS if of_network(name).crop)
"""The nets that see pictures."""

DOMAINS = ("art_painting", "cartoon", "photo")
"""The domains of PACS that are taken for the two sources and the target."""

EACH = 4
"""Pictures of each class and domain."""

GOAL = 0.9

LAST = 10
"""Iterations that are averaged at the end. A batch holds half of the pictures: each of them counts five times."""


def overfit(
    network: str,
    images: Path,
    runs: Path,
    *,
    seed: int,
    iterations: int,
    force: bool = False,
    threads: int | None = None,
    solver_mode: str | None = None,
) -> float:
    """Train mDA on the chosen pictures, in ``runs``/NETWORK; return its accuracy on those of the sources.

    Raises ProgramError if there are too few iterations or pictures, or a run stands there and ``force`` is false.
    """
    if iterations < LAST:
        raise ProgramError(f"iterations: got {iterations}, expected at least {LAST} (they are averaged)")
    dataset = of_network(network)
    experiment = make_experiment(
        dataset,
        "mda",
        sources=dataset.domains[:2],
        targets=dataset.domains[2:3],
        seed=seed,
        iterations=iterations,
        batch_split="per_domain",
        batch_size=EACH * len(PACS.classes) // 2,
    )
    path, data = runs / network, runs / f"{network}_data"
    if path.exists():
        if not force:
            raise ProgramError(f"{path} exists: pass --force to replace it")
        check_unlocked(RunFolder.load(path).path)  # nobody trains on the pictures that are replaced below
    rng = np.random.default_rng(seed)
    for part, chosen in zip(experiment.batch_inputs, choose(images, seed).values(), strict=True):
        shuffled = [chosen[i] for i in rng.permutation(len(chosen))]
        build(shuffled, data / experiment.data.train_lmdb(part), Format(dataset.stored_shape[1:]), force=True)
    folder = write_run(experiment, path, data=data, solver_mode="CPU", force=force)
    solver = folder.read_solver()
    solver.display = 1  # the log gets the accuracy of every batch
    write_text(folder.solver, text_format.MessageToString(solver))
    train_all([folder], threads=threads, solver_mode=solver_mode)
    values = curves(folder.log_text().splitlines())[("train", "source_accuracy")]
    return float(np.mean([values[iteration] for iteration in sorted(values)[-LAST:]]))


def choose(images: Path, seed: int) -> dict[str, list[Entry]]:
    """EACH pictures of every class from each of DOMAINS. Raises ProgramError naming a class that has fewer."""
    trees = read_domains(images, PACS)
    rng = np.random.default_rng(seed)
    chosen: dict[str, list[Entry]] = {domain: [] for domain in DOMAINS}
    for domain in DOMAINS:
        found = entries(trees[domain], PACS) if domain in trees else []
        for label, name in enumerate(PACS.classes):
            images_of_class = [entry for entry in found if entry.label == label]
            if len(images_of_class) < EACH:
                count = len(images_of_class)
                raise ProgramError(f"{images}: {count} images of {domain}/{name}, expected at least {EACH}")
            chosen[domain] += [images_of_class[i] for i in rng.choice(len(images_of_class), EACH, replace=False)]
    return chosen


def main() -> None:
    parser = program_parser("tests.overfit", __doc__)
    parser.add_argument("network", choices=NETS)
    parser.add_argument("--images", type=Path, required=True, metavar="DIR", help="PACS, or a sample of it")
    parser.add_argument(
        "--seed", type=natural, default=0, help="seed of the chosen pictures and of the weights (default: %(default)s)"
    )
    parser.add_argument("--iterations", type=positive, default=200, help="training iterations (default: %(default)s)")
    parser.add_argument(
        "--runs",
        type=Path,
        default=ROOT / "runs" / "overfit",
        help="folder of the run and its LMDBs (default: runs/overfit)",
    )
    parser.add_argument("--force", action="store_true", help="replace the run of an earlier call")
    add_training_options(parser, jobs=None)
    options = parser.parse_args()
    runs = options.runs.resolve()
    accuracy = overfit(
        options.network,
        options.images.resolve(),
        runs,
        seed=options.seed,
        iterations=options.iterations,
        force=options.force,
        threads=options.threads,
        solver_mode=options.solver_mode,
    )
    print(f"{options.network}: {100 * accuracy:.1f} % of the training pictures, mean of the last {LAST} iterations")
    if accuracy <= GOAL:
        raise ProgramError(f"expected more than {100 * GOAL:g} % (the log is {runs / options.network / 'train.log'})")


if __name__ == "__main__":
    run(main)
