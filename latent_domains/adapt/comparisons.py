"""What a training is compared with: other classifiers of the same features, or a net on features alone."""

from pathlib import Path

from latent_domains.adapt.choice import MOST, Choice, can_choose
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

RECORDS = {"spread": "spread", "logistic": "logistic_own_z"}
"""The baseline that stands for a candidate on features in a report; the trained head is the run itself."""

OF_NET = {"spread": "spread_net"}
"""The same of a net that was trained as a whole."""


def baseline_files(paths: Paths, folder: RunFolder) -> list[Path]:
    """Name a record for each classifier to compare with.

    There is none for unlabelled targets, or too many images, and no other classifier of a net trained as a whole.
    """
    data = folder.experiment.data
    if data.unlabelled or sum(data.counts.values()) > MOST:
        return []
    made = list(METHODS) if data.features else []
    if can_choose(folder):
        made.append(_records(folder)["spread"])
    return [paths.baselines / f"{method}.json" for method in made]


def _records(folder: RunFolder) -> dict[str, str]:
    return RECORDS if folder.experiment.data.features else OF_NET


def write_baselines(paths: Paths, folder: RunFolder) -> None:
    """Train and test METHODS on the features of the run, and write records of them and of the candidates."""
    if folder.experiment.data.features:
        print("logistic regression on the same features, to compare with …", flush=True)
    for file in baseline_files(paths, folder):
        if file.stem in METHODS:
            record = make_record(BaselineOptions(file.stem, data=paths.data), folder.experiment)
        else:
            record = _of_spread(file.stem, paths, folder)
        write_text(file, json_text(record.to_json()))


def _of_spread(name: str, paths: Paths, folder: RunFolder) -> Record:
    choice, experiment = Choice.read(paths.choice), folder.experiment
    baseline = {"method": name, "dataset": experiment.dataset}
    baseline |= {"sources": list(experiment.sources), "targets": list(experiment.targets)}
    return Record(baseline=baseline, accuracy=choice.accuracy("spread"), targets=choice.targets["spread"])


def saved(paths: Paths, folder: RunFolder) -> Path:
    """The run or record of what is saved as the model."""
    record = _records(folder).get(Choice.read(paths.choice).chosen) if can_choose(folder) else None
    return paths.baselines / f"{record}.json" if record else folder.path


def compared_records(paths: Paths, folder: RunFolder) -> list[Path]:
    """List what a report compares with a run: other classifiers and, if there is one, the run on features alone."""
    files = baseline_files(paths, folder)
    if is_run_folder(paths.features.run):
        files += [paths.features.run, *baseline_files(paths.features, RunFolder.load(paths.features.run))]
    return files


def result_lines(paths: Paths, folder: RunFolder) -> list[str]:
    """The accuracy of the model that is saved, then those of others, a line each; last why it is this one."""
    lines = _model_lines(paths, folder)
    if not is_run_folder(paths.features.run):
        return lines
    return [
        *lines,
        *result_lines(paths.features, RunFolder.load(paths.features.run)),
        f"No label of the target chooses: {from_root(paths.model)} is the fine-tuned net, whichever of the two is "
        f"better; {from_root(paths.features.model)} is that of the features alone.",
    ]


def _model_lines(paths: Paths, folder: RunFolder) -> list[str]:
    root, record = from_root(paths.root), folder.read_record()
    choice = Choice.read(paths.choice) if can_choose(folder) else None
    others = [read(Record, file) for file in baseline_files(paths, folder) if file.stem in METHODS]
    lines = [
        f"{100 * one.accuracy:.2f} % on the same features by {BASELINES[one.baseline['method']]}" for one in others
    ]
    if record.accuracy is not None and not is_run_folder(paths.features.run):
        lines.append(f"{100 / folder.experiment.data.classes:.2f} % by guessing")
    if choice is None:
        return [f"{root}: {summary(folder, record)}", *lines]
    words, said = choice.words, {name: choice.accuracy(name) for name in choice.words}
    model = words[choice.chosen]
    if record.accuracy is None:
        return [f"{root}: {summary(folder, record)}; the model is {model}", f"({choice.reason})"]
    tried = [f"{100 * said[name]:.2f} % by {words[name]}" for name in ("head", "spread") if name != choice.chosen]
    return [
        f"{root}: {100 * said[choice.chosen]:.2f} % on {folder.experiment.target} by the model, {model}",
        *tried,
        *lines,
        f"({choice.reason})",
    ]
