"""Train MNIST + MNIST-M → USPS with source_only, DIAL, mDA and multi-source, and print the paper's table beside ours.

Builds the data first where it is missing. Interrupted runs go on where they stopped, finished ones are kept.
"""

import argparse
import json
import os
from pathlib import Path

from tools.data import digits as digits_data
from tools.data.parts import build_missing
from tools.experiment import make_experiment
from tools.figures import draw_learning_curves
from tools.files import write_text
from tools.markdown import table
from tools.program import ROOT, run
from tools.suite import run_suite
from tools.train import add_training_options

# Table 1 of the paper: method, its name there, accuracy on USPS in %.
PAPER = {
    "source_only": ("Single source (unified)", 57.1),
    "dial": ("DIAL, single source (unified)", 81.7),
    "mda": ("mDA, k=2", 82.5),
    "multi_source": ("Multi-source DA", 84.2),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.digits", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="seed of the runs (default: %(default)s)")
    parser.add_argument("--iterations", type=int, help="training iterations (default: the recipe's)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "digits", help="folder of the run folders")
    parser.add_argument(
        "--mirror", type=Path, default=os.environ.get("DATA_MIRROR") or None, metavar="DIR",
        help="read the datasets here instead of downloading them (default: environment variable DATA_MIRROR)",
    )
    parser.add_argument("--save-records", type=Path, metavar="DIR", help="copy records, table and curves there")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder of the LMDBs (default: data)")
    add_training_options(parser, jobs=2)
    options = parser.parse_args()
    experiments = [
        make_experiment("digits", method, seed=options.seed, iterations=options.iterations) for method in PAPER
    ]
    build_missing(digits_data.parts(options.data, 0, options.mirror))
    results = run_suite(
        experiments,
        options.runs,
        data=options.data,
        jobs=options.jobs,
        threads=options.threads,
        solver_mode=options.solver_mode,
    )
    rows = []
    for folder, record in results:
        name, paper = PAPER[folder.experiment.method]
        usage = record["domain_usage"]
        shares = " ".join(f"{100 * share:.0f} %" for share in usage["share"]) if usage else ""
        rows.append([name, f"{paper:.1f}", f"{100 * record['accuracy']:.1f}", shares])
    header = ["MNIST + MNIST-M → USPS", "paper", "ours", "latent domains' shares"]
    text = table(header, rows)
    print(text)
    if options.save_records:
        for folder, record in results:
            write_text(options.save_records / f"{folder.path.name}.json", json.dumps(record, indent=2) + "\n")
        write_text(options.save_records / f"table_seed{options.seed}.md", text + "\n")
        draw_learning_curves(
            options.save_records / f"learning_curves_seed{options.seed}.png", [folder for folder, _ in results]
        )
    return 0


if __name__ == "__main__":
    run(main)
