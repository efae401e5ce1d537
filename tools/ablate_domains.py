"""Why does the branch use the domains it uses? Train variants of mDA and watch where the source images go.

Each variant changes something in the paper's setting. Prints, and writes to --out as JSON, the share of source images
whose most probable latent domain is the commonest one (1/k: balanced; 1: collapsed), with purity and NMI against the
true source domains and NMI against the classes, along the iterations; and the accuracy on the target at the last.
"""

from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import ROOT, run
from latent_domains.experiment.experiment import make_experiment
from latent_domains.training.ablations import VARIANTS, ablate, table_of_variants


def main() -> int:
    parser = program_parser("tools.ablate_domains", __doc__)
    parser.add_argument("--dataset", choices=("digits", "demo"), default="digits", help="default: %(default)s")
    parser.add_argument("--k", type=int, help="latent domains (default: the number of sources)")
    parser.add_argument("--iterations", type=int, default=300, help="default: %(default)s")
    parser.add_argument("--batch-size", type=int, help="images per domain (default: the dataset's)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="default: 0")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder of the LMDBs (default: data)")
    names = "; ".join(f"{i} {variant.name}" for i, variant in enumerate(VARIANTS)).replace("%", "%%")
    choices = range(len(VARIANTS))
    parser.add_argument("--variants", type=int, nargs="+", metavar="I", choices=choices, help=f"only these: {names}")
    parser.add_argument("--out", type=Path, help="write the results there as JSON")
    options = parser.parse_args()
    jobs = []  # all described before the first is trained, so that a wrong option shows at once
    for variant in [VARIANTS[i] for i in options.variants] if options.variants else VARIANTS:
        for seed in options.seeds:
            experiment = make_experiment(
                options.dataset,
                "mda",
                k=options.k,
                seed=seed,
                iterations=options.iterations,
                batch_size=options.batch_size,
                **variant.options,
            )
            jobs.append((variant, experiment))
    results = []
    for variant, experiment in jobs:
        results.append(ablate(variant, experiment, options.data))
        if options.out:
            write_text(options.out, json_text(results))
    print(table_of_variants(results))
    return 0


if __name__ == "__main__":
    run(main)
