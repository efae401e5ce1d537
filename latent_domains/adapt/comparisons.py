"""What a training is compared with: other classifiers of the same features, or a net on features alone."""

from pathlib import Path

from latent_domains.adapt.choice import CANDIDATES, MOST, Choice, can_choose
from latent_domains.adapt.task import Paths
from latent_domains.baselines.run import BaselineOptions, make_record
from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import from_root
from latent_domains.experiment.baselines import BASELINES, ON_A_RUN
from latent_domains.runs.evaluate import summary
from latent_domains.runs.record import Record, read
from latent_domains.runs.run_folder import RunFolder, is_run_folder

METHODS = ("logistic", "logistic_own_z")
"""Of BASELINES."""

RECORDS = {"head": "", "spread": "spread", "logistic": "logistic_own_z"}
"""The baseline that stands for each candidate in a report; the trained head is the run itself."""


def baseline_files(paths: Paths, folder: RunFolder) -> list[Path]:
    """Name a record for each classifier to compare with.

    There is none for nets on images, unlabelled targets, or too many images.
    """
    data = folder.experiment.data
    if not data.features or data.unlabelled or sum(data.counts.values()) > MOST:
        return []
    made = [*METHODS, *(ON_A_RUN if can_choose(folder) else ())]
    return [paths.baselines / f"{method}.json" for method in made]


def write_baselines(paths: Paths, folder: RunFolder) -> None:
    """Train and test METHODS on the features of the run, and write records of them and of the candidates."""
    print("logistic regression on the same features, to compare with …", flush=True)
    for file in baseline_files(paths, folder):
        if file.stem in METHODS:
            record = make_record(BaselineOptions(file.stem, data=paths.data), folder.experiment)
        else:
            record = _of_candidate(file.stem, paths, folder)
        write_text(file, json_text(record.to_json()))


def _of_candidate(name: str, paths: Paths, folder: RunFolder) -> Record:
    choice, experiment = Choice.read(paths.choice), folder.experiment
    baseline = {"method": name, "dataset": experiment.dataset}
    baseline |= {"sources": list(experiment.sources), "targets": list(experiment.targets)}
    return Record(baseline=baseline, accuracy=choice.accuracy(name), targets=choice.targets[name])


def saved(paths: Paths, folder: RunFolder) -> Path:
    """The run or record of what is saved as the model."""
    record = RECORDS[Choice.read(paths.choice).chosen] if can_choose(folder) else ""
    return paths.baselines / f"{record}.json" if record else folder.path


def compared_records(paths: Paths, folder: RunFolder) -> list[Path]:
    """List what a report compares with a run: baselines on its features, or the run on features alone."""
    if not is_run_folder(paths.features.run):
        return baseline_files(paths, folder)
    return [paths.features.run, *baseline_files(paths.features, RunFolder.load(paths.features.run))]


def result_lines(paths: Paths, folder: RunFolder) -> list[str]:
    """The accuracy of the model that is saved, then those of others, a line each; last why it is this one."""
    root, record = from_root(paths.root), folder.read_record()
    if is_run_folder(paths.features.run):
        alone = result_lines(paths.features, RunFolder.load(paths.features.run))
        return [
            f"{root}: {summary(folder, record)}",
            *alone,
            f"No label of the target chooses: {from_root(paths.model)} is the fine-tuned net, whichever of the two is "
            f"better; {from_root(paths.features.model)} is that of the features alone.",
        ]
    choice = Choice.read(paths.choice) if can_choose(folder) else None
    others = [read(Record, file) for file in baseline_files(paths, folder) if file.stem in METHODS]
    lines = [
        f"{100 * one.accuracy:.2f} % on the same features by {BASELINES[one.baseline['method']]}" for one in others
    ]
    if record.accuracy is not None:
        lines.append(f"{100 / folder.experiment.data.classes:.2f} % by guessing")
    if choice is None:
        return [f"{root}: {summary(folder, record)}", *lines]
    said = {name: choice.accuracy(name) for name in CANDIDATES}
    words = CANDIDATES[choice.chosen]
    if record.accuracy is None:
        return [f"{root}: {summary(folder, record)}; the model is {words}", f"({choice.reason})"]
    tried = [f"{100 * said[name]:.2f} % by {CANDIDATES[name]}" for name in ("head", *ON_A_RUN) if name != choice.chosen]
    target = folder.experiment.target
    return [
        f"{root}: {100 * said[choice.chosen]:.2f} % on {target} by the model, {words}",
        *tried,
        *lines,
        f"({choice.reason})",
    ]
