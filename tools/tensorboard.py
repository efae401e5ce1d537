"""Write the measurements in runs' logs as TensorBoard event files: RUN/tensorboard/.

Scalars are train/loss, train/lr, the loss terms, and the accuracies, test/… on the target. A run that was resumed has
each iteration once. Look at them with:

    tensorboard --logdir runs/digits
"""

from pathlib import Path

from tqdm import tqdm

from latent_domains.common.arguments import program_parser
from latent_domains.common.program import run
from latent_domains.runs.run_folder import RunFolder, find_runs
from latent_domains.runs.tensorboard import write_events


def main() -> None:
    parser = program_parser("tools.tensorboard", __doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders of run folders")
    options = parser.parse_args()
    folders = [RunFolder.load(path) for given in options.runs for path in find_runs(given)]
    for folder in tqdm(folders, unit="run", disable=len(folders) < 2):
        count = write_events(folder, folder.path / "tensorboard")
        tqdm.write(f"{folder.path / 'tensorboard'}: {count} numbers")


if __name__ == "__main__":
    run(main)
