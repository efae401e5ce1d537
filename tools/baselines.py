"""Run a shallow baseline on feature LMDBs and write its record, OUT.json.

    python -m tools.baselines gong2013 --dataset office31_fc7 --sources amazon+dslr --targets webcam out.json

| method         | what it does |
| -------------- | ------------ |
| gong2013       | maximally distinctive latent domains, a geodesic flow kernel (GFK) from each to the target |
| hoffman2012    | latent domains by constrained clustering, the same kernels |
| gfk            | one GFK from all sources to the target: "original", the sources as one domain |
| 1nn            | no adaptation: the nearest neighbour among the sources |
| 1nn_own_z      | the same, sources and target each standardised by their own mean and variance |
| svm            | no adaptation: a linear SVM of the sources |
| logistic       | no adaptation: a logistic regression of the sources |
| logistic_own_z | the same, each side standardised as in 1nn_own_z |

The first two use their domains as an ensemble and by matching (only the domain nearest to the target); a record has
both. Labels of the target serve only for the accuracy. Methods and choices: docs/baselines.md.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.baselines")

import argparse
from dataclasses import fields
from pathlib import Path

from latent_domains.baselines.run import BaselineOptions, make_record
from latent_domains.common.arguments import add_data_option, natural, positive, program_parser
from latent_domains.common.files import check_free, json_text, write_text
from latent_domains.common.program import ProgramError
from latent_domains.experiment.baselines import BASELINES, CLASSIFIERS, NORMALISATIONS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.options import add_experiment_options

_DATA = ("sources", "targets", "undivided")
"""The settings of a run that select its data."""


def _or_auto(text: str) -> int | None:
    return None if text == "auto" else positive(text)


def _options() -> argparse.Namespace:
    parser = program_parser("tools.baselines", __doc__)
    parser.add_argument("method", choices=BASELINES)
    add_experiment_options(parser, _DATA, dataset=None)
    parser.add_argument(
        "--k",
        type=_or_auto,
        metavar="K|auto",
        help="latent source domains; auto: 2 to --max-k, by cross-validation within the domains (default: auto)",
    )
    parser.add_argument("--max-k", type=positive, default=5, metavar="K", help="largest K of auto (default: 5)")
    parser.add_argument(
        "--classifier",
        choices=CLASSIFIERS,
        help="classifier in the kernel: nearest neighbour, as in the kernel's paper, or linear SVM (default: 1nn)",
    )
    parser.add_argument(
        "--dimension",
        type=_or_auto,
        metavar="D|auto",
        help="dimension of the kernel's subspaces; auto: by the subspace disagreement measure (default: auto)",
    )
    parser.add_argument(
        "--normalise",
        choices=NORMALISATIONS,
        default=NORMALISATIONS[0],
        help="z: standardise the features of each domain and of the target separately, for a kernel; none: use them as "
        "stored (default: z)",
    )
    parser.add_argument(
        "--min-domain",
        type=positive,
        metavar="N",
        help="gong2013: the fewest images of a domain (default: the number of classes, as in the paper)",
    )
    parser.add_argument("--seed", type=natural, default=0, help="seed of random numbers (default: 0)")
    parser.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="learn from only N records of each source and target, evenly spaced; test on all",
    )
    add_data_option(parser)
    parser.add_argument("--force", action="store_true", help="replace OUT.json")
    parser.add_argument("out", type=Path, metavar="OUT.json", help="record to write")
    options = parser.parse_args()
    if options.min_domain is not None and options.method != "gong2013":
        parser.error(f"argument --min-domain: {options.method} has no such bound")
    if options.max_k < 2:
        parser.error("argument --max-k: got 1, expected at least 2")
    chosen = {field.name: getattr(options, field.name) for field in fields(BaselineOptions)}
    try:
        options.baseline = BaselineOptions(**chosen)
    except ValueError as error:
        parser.error(f"argument --{error}")
    return options


def main() -> None:
    options = _options()
    check_free(options.out, force=options.force)
    data = {name: getattr(options, name) for name in _DATA}
    experiment = make_experiment(options.dataset, "dial", **data, seed=options.seed)
    if unlabelled := [target for target in experiment.targets if target in experiment.data.unlabelled]:
        raise ProgramError(f"targets: {', '.join(unlabelled)} without labels, expected labels for the accuracy")
    record = make_record(options.baseline, experiment)
    write_text(options.out, json_text(record.to_json()))
    said = f"{options.out}: {100 * record.accuracy:.2f} % on {experiment.target}"
    if record.matching:
        said += f", by matching {100 * record.matching.accuracy:.2f} %"
    print(said)
    if equals := record.baseline["k_equals"]:
        print(f"k = {record.baseline['k']} is no better than {', '.join(map(str, equals))}: within two standard errors")
