"""Test whether a net learns at all: train mDA on a few real pictures until it knows them by heart.

    python -m tests.overfit resnet18 --images PACS

Take 8 pictures of each of PACS's 7 classes, 4 from each of two source domains (56 in all), and 28 of a third domain as
the unlabelled target. Train from random weights on the CPU, in runs/overfit, and fail if the accuracy on the 56
pictures, averaged over the last iterations, is not above 90 %.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tests.overfit")

from pathlib import Path

import numpy as np
from google.protobuf import text_format

from latent_domains.common.arguments import positive, program_parser
from latent_domains.common.caffe_process import curves
from latent_domains.common.files import write_text
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data.image_datum import Format
from latent_domains.data.image_lmdb import build
from latent_domains.data.sets.image_sets import entries, read_domains
from latent_domains.data.sets.published import PACS
from latent_domains.experiment.datasets import of_network
from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.networks import NETWORKS
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all
from tests.pictures import few

DOMAINS = ("art_painting", "cartoon", "photo")
"""The domains of PACS that are taken for the two sources and the target."""

EACH = 4
"""Pictures of each class and domain."""

GOAL = 0.9

LAST = 10
"""Iterations that are averaged at the end. A batch holds half of the pictures: each of them counts five times."""


def overfit(network: str, images: Path, folder: Path, iterations: int) -> float:
    """Train mDA on the chosen pictures, in ``folder``/NETWORK; return its accuracy on those of the sources.

    Raises ProgramError if a domain has too few pictures, or if a run stands there.
    """
    dataset = of_network(network)
    experiment = make_experiment(
        dataset,
        "mda",
        sources=dataset.domains[:2],
        targets=dataset.domains[2:3],
        iterations=iterations,
        batch_split="per_domain",
        batch_size=EACH * len(PACS.classes) // 2,
    )
    if (folder / network).exists():
        raise ProgramError(f"{folder / network}: is there from an earlier call: remove it first")
    data, trees = folder / f"{network}_data", read_domains(images, PACS)
    for part, domain in zip(experiment.batch_inputs, DOMAINS, strict=True):
        chosen = few(entries(trees[domain], PACS), EACH) if domain in trees else []
        if len(chosen) < EACH * len(PACS.classes):
            raise ProgramError(f"{images}: {domain}: expected at least {EACH} pictures of each class of PACS")
        build(chosen, data / experiment.data.train_lmdb(part), Format(dataset.stored_shape[1:]), force=True)
    written = write_run(experiment, folder / network, data=data, solver_mode="CPU")
    solver = written.read_solver()
    solver.display = 1  # the log gets the accuracy of every batch
    write_text(written.solver, text_format.MessageToString(solver))
    train_all([written])
    values = curves(written.log_text().splitlines())[("train", "source_accuracy")]
    return float(np.mean([values[iteration] for iteration in sorted(values)[-LAST:]]))


def main() -> None:
    parser = program_parser("tests.overfit", __doc__)
    parser.add_argument("network", choices=[name for name in NETWORKS if of_network(name).crop])
    parser.add_argument("--images", type=Path, required=True, metavar="DIR", help="PACS, or a sample of it")
    parser.add_argument("--iterations", type=positive, default=200, help="default: %(default)s")
    options = parser.parse_args()
    folder = ROOT / "runs" / "overfit"
    accuracy = overfit(options.network, options.images.resolve(), folder, options.iterations)
    print(f"{options.network}: {100 * accuracy:.1f} % of the training pictures, mean of the last {LAST} iterations")
    if accuracy <= GOAL:
        raise ProgramError(f"expected more than {100 * GOAL:g} % (the log is {folder / options.network / 'train.log'})")
