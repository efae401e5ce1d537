"""Train run folders with the real ``caffe train``, then evaluate them at the last iteration.

Ctrl-C stops with a snapshot; --resume continues from there. RUN/train.log is the whole log, RUN/training.json says when
and how long the run was trained, and RUN/record.json is the result. If the run fails, RUN/failure.json says why.

A run uses one GPU, the first that CUDA_VISIBLE_DEVICES names.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.train")

from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.runs.devices import add_training_options
from latent_domains.runs.evaluate import domains_summary, summary
from latent_domains.runs.run_folder import RunFolder
from latent_domains.training.train import train_all


def main() -> None:
    parser = program_parser("tools.train", __doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders (python -m tools.write_run)")
    parser.add_argument("--resume", action="store_true", help="continue from the last snapshot; skip finished runs")
    parser.add_argument("--wait", action="store_true", help="wait until other processes have trained these runs")
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="caffemodel with initial weights for layers of the same names"
    )
    add_training_options(parser, jobs=1)
    options = parser.parse_args()
    runs = [RunFolder.load(path) for path in options.runs]
    train_all(
        runs,
        jobs=options.jobs,
        threads=options.threads,
        resume=options.resume,
        solver_mode=options.solver_mode,
        weights=options.weights,
        wait=options.wait,
    )
    for folder in runs:
        record = folder.read_record()
        print(f"{folder.path}: {summary(folder, record)} at the last iteration")
        for domains in domains_summary(folder, record):
            print(f"{folder.path}: {domains}")
