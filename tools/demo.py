"""Show the whole method in minutes: discover latent source domains and adapt to unlabelled handwriting; no download.

Train source_only, DIAL and mDA with the real caffe binary, mDA with a branch that finds the domains and with the
paper's. No run gets a domain label. Print the accuracies on the target. Draw the domains and the latent domains of
held-out images of each true source domain, and write one page about all of it, report.html.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.demo")

from pathlib import Path

from latent_domains.common.arguments import add_data_option, natural, positive, program_parser
from latent_domains.common.artefact import make_missing
from latent_domains.common.program import ROOT
from latent_domains.common.wording import table
from latent_domains.data.lmdb_io import read_images
from latent_domains.data.sets import demo as demo_data
from latent_domains.experiment.experiment import make_experiment
from latent_domains.report.build import build
from latent_domains.report.domains import draw_latent_domains, draw_samples
from latent_domains.runs.devices import add_training_options
from latent_domains.runs.write import write_missing
from latent_domains.tables import definition
from latent_domains.training.train import train_all

RUNS = (
    {"method": "source_only"},
    {"method": "dial"},
    {"method": "mda", "branch_norm": "logits"},
    {"method": "mda"},
)
"""Settings of the runs; the runs of mDA become rows of the picture of the latent domains."""


def main() -> None:
    parser = program_parser("tools.demo", __doc__)
    parser.add_argument("--seed", type=natural, default=0, help="seed of images and runs (default: %(default)s)")
    parser.add_argument("--iterations", type=positive, help="training iterations (default: the recipe's)")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "runs" / "demo", help="folder of runs and pictures (default: runs/demo)"
    )
    add_data_option(parser)
    add_training_options(parser, jobs=2)
    options = parser.parse_args()
    options.runs, options.data = options.runs.resolve(), options.data.resolve()
    common = {"seed": options.seed, "iterations": options.iterations}
    experiments = [make_experiment("demo", **settings, **common) for settings in RUNS]  # bad options end here
    data_folder = definition.data_folder(options.data, options.seed, per_seed=True)
    make_missing(demo_data.plans(data_folder, options.seed))
    folders = [write_missing(one, options.runs / one.name, data=data_folder) for one in experiments]
    train_all(folders, jobs=options.jobs, threads=options.threads, resume=True, solver_mode=options.solver_mode)
    results = [(folder, folder.read_record()) for folder in folders]

    rows = []
    for folder, record in results:
        usage = record.domain_usage
        discovered = f"purity {usage.purity:.2f}, NMI {usage.nmi:.2f}" if usage else ""
        rows.append([folder.experiment.title, f"{100 * record.accuracy:.1f} %", discovered])
    print(table(["plain + photo → handwritten", "target accuracy", "latent domains against true ones"], rows))

    data = experiments[0].data
    roles = {
        "plain": "source: fonts on black",
        "photo": "source: fonts on photographs",
        "handwritten": "target: handwriting, unlabelled",
    }
    samples = {roles[domain]: read_images(data_folder / data.train_lmdb(domain), 64)[0] for domain in data.domains}
    pictures = [options.runs / name for name in ("samples.png", "latent_domains.png")]
    draw_samples(pictures[0], samples)
    draw_latent_domains(pictures[1], [result for result in results if result[1].domain_usage], options.seed)
    for picture in pictures:
        print(f"picture: {picture}")
    report = options.runs / "report.html"
    build([folder.path for folder in folders], report)
    print(f"report: {report}")
