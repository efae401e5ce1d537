"""Time and memory of one training iteration of the paper's nets at the paper's batch sizes, on this machine's CPU.

Every method is measured in turns in the same run: forward and backward by ``caffe time`` (the better of --rounds), and
the most memory that ``caffe train`` held over two iterations. The images are random ones. Times are worth comparing
within one run only.
"""

import os

from latent_domains.bench.nets import measure
from latent_domains.common.arguments import positive, program_parser
from latent_domains.common.markdown import table
from latent_domains.common.program import run
from latent_domains.experiment.batches import batch_sizes, published_counts
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.preflight import check_caffe

NETS = ("office31", "office31_fc7", "pacs")

METHODS = ("source_only", "dial", "mda")


def main() -> None:
    parser = program_parser("tools.bench.nets", __doc__)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", help=f"default: {' '.join(NETS)}")
    parser.add_argument("--rounds", type=positive, default=2, help="times every method is timed (default: %(default)s)")
    options = parser.parse_args()
    chosen = {
        name: [make_experiment(name, method, iterations=2) for method in METHODS] for name in options.datasets or NETS
    }
    check_caffe()
    cores = len(os.sched_getaffinity(0))
    rows = []
    for name, experiments in chosen.items():
        results = measure(experiments, cores, options.rounds)
        for experiment, (ms, gib) in zip(experiments, results, strict=True):
            ratio = ms / results[0][0]
            rows.append(
                [
                    name,
                    experiment.title,
                    str(sum(batch_sizes(experiment, published_counts(experiment)).values())),
                    f"{ms / 1000:.2f} s",
                    f"{ratio:.2f}",
                    f"{gib:.1f} GiB",
                ]
            )
    print(table(["net", "method", "images", "iteration", "to source only", "memory"], rows))
    print(f"{cores} cores")


if __name__ == "__main__":
    run(main)
