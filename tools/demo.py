"""The main job in minutes: discover latent source domains, adapt to unlabelled handwriting; no download.

Trains source_only, DIAL and mDA with the real caffe binary, prints the accuracies on the target, and draws the
domains, the learning curves and which latent domain each true source domain's images went to; then all of it in one
page, report.html.
"""

import argparse
from pathlib import Path

from latent_domains.common.markdown import table
from latent_domains.common.program import ROOT, run
from latent_domains.data.lmdb_io import read_images
from latent_domains.data.parts import build_missing
from latent_domains.data.sets import demo as demo_data
from latent_domains.experiment.experiment import make_experiment
from latent_domains.report.build import build
from latent_domains.report.demo import Discovery, draw_latent_domains, draw_learning_curves, draw_samples
from latent_domains.runs.evaluate import last_snapshot
from latent_domains.runs.outputs import latent_domain_images
from latent_domains.training.options import add_training_options
from latent_domains.training.train import run_suite

KNOWN_SHARE = 0.05
"""Share of source images whose domain is told to the last run, the paper's smallest in Fig. 3."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="seed of the runs (default: %(default)s)")
    parser.add_argument("--iterations", type=int, help="training iterations (default: the recipe's)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "demo", help="folder of runs and pictures")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder of the LMDBs (default: data)")
    add_training_options(parser, jobs=2)
    options = parser.parse_args()
    options.runs, options.data = options.runs.resolve(), options.data.resolve()
    build_missing(demo_data.parts(options.data, 0))
    common = {"seed": options.seed, "iterations": options.iterations}
    experiments = [
        make_experiment("demo", "source_only", **common),
        make_experiment("demo", "dial", **common),
        make_experiment("demo", "mda", **common),
        make_experiment("demo", "mda", known_share=KNOWN_SHARE, **common),
    ]
    results = run_suite(
        experiments,
        options.runs,
        data=options.data,
        jobs=options.jobs,
        threads=options.threads,
        solver_mode=options.solver_mode,
    )

    rows, discoveries = [], []
    for folder, record in results:
        title, usage = folder.experiment.title, record.domain_usage
        if usage:
            images = latent_domain_images(folder, last_snapshot(folder), options.seed)
            discoveries.append(Discovery(title, usage, images))
        discovered = f"purity {usage.purity:.2f}, NMI {usage.nmi:.2f}" if usage else ""
        rows.append([title, f"{100 * record.accuracy:.1f} %", discovered])
    print(table(["plain + photo → handwritten", "target accuracy", "latent domains against true ones"], rows))

    data = experiments[0].data
    roles = {
        "plain": "source: fonts on plain ground",
        "photo": "source: fonts on photographs",
        "handwritten": "target: handwriting, unlabelled",
    }
    samples = {roles[domain]: read_images(options.data / data.train_lmdb(domain), 64)[0] for domain in data.domains}
    pictures = [options.runs / name for name in ("samples.png", "learning_curves.png", "latent_domains.png")]
    draw_samples(pictures[0], samples)
    draw_learning_curves(pictures[1], [folder for folder, _ in results])
    draw_latent_domains(pictures[2], discoveries)
    for picture in pictures:
        print(f"picture: {picture}")
    report = options.runs / "report.html"
    build([folder.path for folder, _ in results], report)
    print(f"report: {report}")
    return 0


if __name__ == "__main__":
    run(main)
