"""What a training is compared with: logistic regression on the same features, or a net on features alone."""

from pathlib import Path

from latent_domains.adapt.task import Paths
from latent_domains.baselines.run import BaselineOptions, make_record
from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import from_root
from latent_domains.experiment.baselines import BASELINES
from latent_domains.runs.evaluate import summary
from latent_domains.runs.record import Record, read
from latent_domains.runs.run_folder import RunFolder, is_run_folder

METHODS = ("logistic", "logistic_own_z")
"""Of BASELINES."""

MOST = 20_000
"""Images of all domains: these take some ten seconds and 1 GB. Beyond, ``tools.baselines`` does it with a limit."""


def baseline_files(paths: Paths, folder: RunFolder) -> list[Path]:
    """Name a record for each of METHODS; none for nets on images, unlabelled targets, or too many images."""
    data = folder.experiment.data
    if not data.features or data.unlabelled or sum(data.counts.values()) > MOST:
        return []
    return [paths.baselines / f"{method}.json" for method in METHODS]


def write_baselines(paths: Paths, folder: RunFolder) -> None:
    """Train and test METHODS on the features of the run, and write their records."""
    print("logistic regression on the same features, to compare with …", flush=True)
    for method, file in zip(METHODS, baseline_files(paths, folder), strict=True):
        record = make_record(BaselineOptions(method, data=paths.data), folder.experiment)
        write_text(file, json_text(record.to_json()))


def compared_records(paths: Paths, folder: RunFolder) -> list[Path]:
    """List what a report compares with a run: baselines on its features, or the run on features alone."""
    if not is_run_folder(paths.features.run):
        return baseline_files(paths, folder)
    return [paths.features.run, *baseline_files(paths.features, RunFolder.load(paths.features.run))]


def comparison_lines(paths: Paths, folder: RunFolder) -> list[str]:
    """A line for each result, and that no label of the target chooses between fine-tuning and features."""
    if is_run_folder(paths.features.run):
        alone = RunFolder.load(paths.features.run)
        learner, record = alone.experiment.data.learner, alone.read_record()
        said = [f"{summary(alone, record)} by {learner} alone"] if record.accuracy is not None else []
        return [
            *said,
            *comparison_lines(paths.features, alone),
            f"No label of the target chooses: {from_root(paths.model)} is the fine-tuned net, whichever of the two is "
            f"better; {from_root(paths.features.model)} is that of the features alone.",
        ]
    found = [read(Record, file) for file in baseline_files(paths, folder)]
    return [f"{100 * one.accuracy:.2f} % on the same features by {BASELINES[one.baseline['method']]}" for one in found]
