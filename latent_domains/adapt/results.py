"""The results for the user: comparisons with the training, tables, and a page that explains the files."""

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import caffe
import numpy as np

from latent_domains.adapt.adaptation import Adaptation
from latent_domains.adapt.choice import MOST, Choice, can_choose
from latent_domains.adapt.data import plan_style
from latent_domains.adapt.folder import Paths
from latent_domains.baselines.linear import LinearHead, standardised
from latent_domains.baselines.run import BaselineOptions, make_record
from latent_domains.common.arguments import BACKGROUND, RANGE
from latent_domains.common.artefact import make_missing
from latent_domains.common.files import json_text, write_csv, write_text
from latent_domains.common.program import from_root
from latent_domains.convert.torch.backbone import style_backbone
from latent_domains.data.lmdb_folder import is_lmdb, read_note
from latent_domains.data.lmdb_io import record_names
from latent_domains.domains.assign import assign
from latent_domains.domains.pictures import Pictures
from latent_domains.domains.statistics import LinearDomains, made_by
from latent_domains.domains.style import statistics_of
from latent_domains.experiment.baselines import BASELINES
from latent_domains.runs.domain_labels import assigned_domains, given_domains
from latent_domains.runs.evaluate import summary
from latent_domains.runs.lock import LOCK
from latent_domains.runs.outputs import source_lmdbs
from latent_domains.runs.record import Record, read
from latent_domains.runs.run_folder import RunFolder, is_run_folder

METHODS = ("logistic", "logistic_own_z")
"""The baselines that are compared, of BASELINES."""

RECORDS = {"spread": "spread", "logistic": "logistic_own_z"}
"""The baseline whose record shows a candidate on features in a report; the trained head is the run itself."""

OF_NET = {"spread": "spread_net"}
"""The same for a net that was trained as a whole."""


def baseline_files(paths: Paths, folder: RunFolder) -> list[Path]:
    """Return the record file of each classifier to compare with.

    There is none for unlabelled targets or too many images, and no other classifier of a net trained as a whole.
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
    """Return the run or record of the saved model."""
    record = _records(folder).get(Choice.read(paths.choice).chosen) if can_choose(folder) else None
    return paths.baselines / f"{record}.json" if record else folder.path


def compared_records(paths: Paths, folder: RunFolder) -> list[Path]:
    """Return what a report compares with a run: other classifiers and, if there is one, the run on features alone."""
    files = baseline_files(paths, folder)
    if is_run_folder(paths.features.run):
        files += [paths.features.run, *baseline_files(paths.features, RunFolder.load(paths.features.run))]
    return files


def result_lines(paths: Paths, folder: RunFolder) -> list[str]:
    """Return the accuracy of the saved model, then those of others, one per line; last the reason of the choice."""
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


def write_domains(folder: RunFolder, out: Path) -> None:
    """Write each source image with its most probable latent domain (from 1) and the probabilities of all."""
    lmdbs, images = source_lmdbs(folder), Pictures(folder.experiment, folder.data_folder)
    if folder.experiment.method.has_branch:
        net = folder.load_net("domains", caffe.TEST, folder.final_snapshot().model)
        found = images.by_part(assign(images, ("branch", {"net": net})))
        if folder.experiment.method.domains:
            given = given_domains(folder)
            known = {source: w.any(axis=1, keepdims=True) for source, w in given.items()}
            found = {source: np.where(known[source], w, found[source]) for source, w in given.items()}
    else:
        found = assigned_domains(folder)
    names = [f"probability of domain {domain + 1}" for domain in range(folder.experiment.k)]
    rows = (
        [source, path, int(row.argmax()) + 1, *(f"{value:.8f}" for value in row)]
        for source, lmdb in lmdbs.items()
        for path, row in sorted(zip(record_names(lmdb), found[source], strict=True), key=lambda pair: pair[0])
    )
    write_csv(out, ["source", "path", "domain", *names], rows)


def write_domain_model(adaptation: Adaptation, folder: RunFolder) -> None:
    """Fit and write the model that predicts the domains of new pictures: linear, on the sources' statistics."""
    paths = adaptation.paths
    make_missing([part for part in plan_style(replace(adaptation, skip_unreadable=True)) if not is_lmdb(part.path)])
    rows, _ = statistics_of(Pictures(folder.experiment, paths.data))
    w = np.concatenate([*given_domains(folder).values()]).astype(np.float64)
    head = LinearHead.distil(standardised(rows), w).of_raw(rows)
    LinearDomains(head.weights, head.bias, made_by(style_backbone())).write(paths.domain_model)


def write_readme(adaptation: Adaptation, folder: RunFolder) -> None:
    """Write the page that explains the folder."""
    write_text(adaptation.paths.readme, "\n".join([*_readme(adaptation, folder), ""]))


def _readme(adaptation: Adaptation, folder: RunFolder) -> Iterable[str]:
    experiment, paths = folder.experiment, adaptation.paths
    sources, targets = (
        ", ".join(f"{domain.name} ({domain.folder})" for domain in domains)
        for domains in (adaptation.images.sources, adaptation.images.targets)
    )
    yield f"{experiment.title}: {sources} to {targets}"
    how_long = f"{experiment.recipe.iterations} iterations"
    yield f"{experiment.data.learner}, {how_long}"
    yield from result_lines(paths, folder)
    yield ""
    yield f"Made by: {adaptation.command}"
    yield ""
    yield from contents(paths)
    yield ""
    yield from usage(paths)


def contents(paths: Paths) -> list[str]:
    """List the files of the folder, one per line."""
    texts = {
        paths.report: "pictures and numbers: open it in a browser",
        paths.predictions: "the class of every target image, and how probable it is",
        paths.found: "how the domains of the source images were counted, with pictures of each",
        paths.domains: "the latent domain of every source image",
        paths.model_files[0]: "the trained net in stock layers of Caffe",
        paths.model_files[1]: "its weights",
        paths.model_files[2]: "the names of its classes, and how an image becomes its input",
        paths.domain_model: "which domain a new picture is of: for tools.predict --domains",
        paths.onnx: "net and weights for ONNX Runtime, OpenCV and others",
        paths.choice: "which classifier was chosen as the model, and why",
        paths.chosen: "the parameters of that classifier, in the run's deploy net",
        paths.held_out: "a run for each source that was held out, to choose",
        paths.baselines: "what other classifiers get on the same features",
        paths.features.root: "all of this of the features alone: a second model to choose from",
        paths.run: "nets, solver, log, snapshots and the record of the training",
        paths.data: "the images as LMDBs, for more training; can be deleted",
        paths.settings: "what was asked for: the same command does only what is missing",
        paths.root / LOCK: "keeps other calls out while one works here",
    }
    return [f"  {file.name:<16} {text}" for file, text in texts.items() if file.exists()]


def usage(paths: Paths) -> list[str]:
    """Show how to use the model: by tools.predict, and by OpenCV alone."""
    model = from_root(paths.model)
    return [
        "New images:",
        "",
        f"  python -m tools.predict {shlex.quote(model)} IMAGES --out FILE.csv",
        "",
        "The same in your own program, from the same folder, with OpenCV alone:",
        "",
        "  import cv2, json",
        f"  model = {model!r}",
        "  form = json.load(open(model + '.json'))",
        "  net = cv2.dnn.readNetFromONNX(model + '.onnx')",
        "  p = form['preprocessing']",
        "  channels, height, width = p['stored_shape']",
        *_reading(paths),
        "  side = p['crop'] or height",
        "  top = (height - side) // 2",
        "  image = (image[top : top + side, top : top + side] - p['mean']) * p['scale']",
        "  net.setInput(image.transpose(2, 0, 1)[None].astype('float32'))",
        "  print(form['classes'][net.forward().argmax()])",
    ]


def _reading(paths: Paths) -> list[str]:
    """Return lines of the program that read a picture as the dataset's were read."""
    usual = ["  image = cv2.resize(cv2.imread('image.jpg'), (width, height)).astype('float32')"]
    made_of = [read_note(lmdb).made_of for lmdb in paths.lmdbs.glob("*")]
    options = {option for one in made_of if one for option in one.reading}
    if not options:
        return usual
    opaque = [
        "  if whole.shape[2:] == (4,):  # transparent parts show the background",
        "      opacity = whole[..., 3:] / 255",
        "      image = image * opacity + (1 - opacity) * p['reading']['background']",
    ]
    scaled = [
        "  if whole.dtype != 'uint8':  # more than 8 bits",
        "      low, high = p['reading']['range']",
        "      image = ((whole - float(low)) * 255 / (high - low)).clip(0, 255)",
        "      image = image if image.ndim == 3 else cv2.merge([image] * 3)",
    ]
    return [
        "  image, whole = cv2.imread('image.png'), cv2.imread('image.png', cv2.IMREAD_UNCHANGED)",
        *(opaque if BACKGROUND in options else []),
        *(scaled if RANGE in options else []),
        "  image = cv2.resize(image.round().astype('uint8'), (width, height)).astype('float32')",
    ]
