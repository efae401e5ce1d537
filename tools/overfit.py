"""Test whether a net learns at all: train mDA on a few real pictures until it knows them by heart.

    python -m tools.overfit resnet18 --images PACS

Take 8 pictures of each of PACS's 7 classes, 4 from each of two source domains (56 in all), and 28 of a third domain as
the unlabelled target. Train from random weights on the CPU, and fail if the accuracy on the 56 pictures, averaged over
the last iterations, is not above 90 %.
"""

from pathlib import Path

from latent_domains.common.arguments import natural, positive, program_parser
from latent_domains.common.program import ROOT, ProgramError, run
from latent_domains.runs.devices import add_training_options
from latent_domains.training.overfit import GOAL, LAST, NETS, overfit


def main() -> None:
    parser = program_parser("tools.overfit", __doc__)
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
