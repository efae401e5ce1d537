"""Adapt a classifier to your own images: from folders to a model, predictions and a report.

    python -m tools.adapt --source photos --source drawings --target scans --out runs/scans
    python -m tools.adapt --source mixture --k 3 --target scans
    python -m tools.adapt --source mixture --domains runs/kinds/domains.csv --target scans

Each --source is a domain with one folder for each class. A single source is treated as a mixture of latent domains. On
features the program counts the latent domains, as tools.discover does. --k sets their number; --domains names a CSV
file with the domain of each picture, as tools.discover writes it, which you may edit. Each --target contains the images
to classify, in any folders. Folders with the names of the classes are only used to measure the accuracy. Several
targets are one domain, or --k-target latent domains.

Without a GPU, train a classifier on features of EfficientNet-Lite0, in minutes; the weights come from a Python package.
--fine-tune also trains the whole net, in a quarter of an hour on two cores. The model is then the fine-tuned net, and
OUT/features has the classifier on features. With a GPU, fine-tune ResNet18. --network chooses another net.

OUT gets the trained model in stock layers (model.*), predictions.csv for the target, domains.csv for the sources,
report.html, logistic regression on the same features (baselines), nets and training (run), LMDBs (data), and
README.txt, which explains these files. Ctrl-C stops the program; the same command continues, or does nothing if all is
finished. On a CPU, the program first prints an estimate of the training time. More: docs/own_images.md.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.adapt")

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from latent_domains.adapt.adaptation import (
    CHOICES,
    IMAGE_SIZE,
    ITERATIONS,
    Adaptation,
    Notes,
    choose_learner,
    experiment_of,
    notes_on,
    with_defaults,
)
from latent_domains.adapt.folder import Paths, check_goes_on, held, keep_settings, remove_results
from latent_domains.adapt.training import NONE, weights_to_begin
from latent_domains.common.arguments import (
    BACKGROUND,
    RANGE,
    add_image_options,
    add_reading_options,
    add_tree_option,
    path,
    positive,
    program_parser,
)
from latent_domains.common.files import check_apart
from latent_domains.common.program import ROOT
from latent_domains.common.wording import some
from latent_domains.data.domain_images import TaskImages, read_images
from latent_domains.data.domains_file import domains_digest, read_domains_file
from latent_domains.data.inspection import chosen_reading, notes_on_copies
from latent_domains.domains.from_file import rows_of
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.options import add_method_options, method_options, option_name
from latent_domains.runs.devices import add_training_options, check_available, requested_mode
from latent_domains.runs.preflight import check_caffe
from latent_domains.runs.write import check_name


def _options() -> argparse.Namespace:
    parser = program_parser("tools.adapt", __doc__)
    several = {"type": _domain, "action": "append", "required": True, "metavar": "DIR"}
    parser.add_argument("--source", help="folder of a source domain: DIR/CLASS/…/IMAGE; may be repeated", **several)
    parser.add_argument("--target", help="folder of the images to classify; may be repeated", **several)
    parser.add_argument(
        "--out",
        type=_folder,
        default=ROOT / "runs" / "mine",
        metavar="DIR",
        help="new folder for all results (default: runs/mine)",
    )
    parser.add_argument("--unlabelled", action="store_true", help="do not read the targets' folders as labels")
    parser.add_argument("--allow-missing-classes", action="store_true", help="allow sources that lack some classes")
    add_tree_option(parser)
    parser.add_argument("--skip-unreadable", action="store_true", help="skip unreadable images and print their names")
    parser.add_argument(
        "--network",
        choices=CHOICES,
        help="lite0: train a classifier on features of EfficientNet-Lite0, in minutes; others: fine-tune the net "
        "(default: resnet18 on a GPU, else lite0)",
    )
    parser.add_argument(
        "--fine-tune",
        action="store_true",
        help="also fine-tune lite0; OUT/features then has the classifier on features",
    )
    parser.add_argument(
        "--image-size",
        type=positive,
        metavar="SIDE",
        help=f"side in pixels of a fine-tuned net's square input (default: {IMAGE_SIZE} for lite0, else the network's)",
    )
    parser.add_argument(
        "--weights",
        type=_weights,
        metavar=f"FILE|{NONE}",
        help="initial weights for fine-tuning: a caffemodel; a checkpoint of PyTorch (not for alexnet, mnist); or "
        "none: random weights (default: ImageNet's, downloaded once to data/weights; none for mnist)",
    )
    add_method_options(
        parser,
        recipe="the network's",
        method="style_w for lite0, except with options of mda, else mda",
        iterations=f"{ITERATIONS} for lite0 with --fine-tune, else the network's",
        k="counted, as by tools.discover, for clusters of style; else the number of sources, or 2 for a single one",
        k_target="1",
        branch_norm="logits",
        branch_input="early on features, else final; final with latent targets",
        no_w_gradient="on features",
        lambda_d="0.1 on features, else the network's",
        data_order="shuffled",
    )
    parser.add_argument(
        "--w-gradient",
        dest="no_w_gradient",
        action="store_false",
        default=None,
        help="also train the branch with the class losses (default for fine-tuned nets, not on features)",
    )
    add_training_options(parser, jobs=None)
    add_image_options(parser)
    add_reading_options(parser)
    parser.add_argument("--force", action="store_true", help="start again and replace the files in OUT")
    return parser.parse_args()


def _folder(text: str) -> Path:
    """Return a folder's absolute path, since the work is done in another one."""
    return _in_utf8(path(text).resolve())


def _domain(text: str) -> Path:
    """Return the same, but keep a link's own name, which becomes the domain's."""
    folder = path(text)
    return _in_utf8(folder.parent.resolve() / folder.name if folder.name not in ("", "..") else folder.resolve())


def _in_utf8(whole: Path) -> Path:
    try:
        str(whole).encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"got {str(whole)!r}, expected a name in UTF-8") from None
    return whole


def _weights(text: str) -> str:
    return text if text == NONE else str(path(text).resolve())


def _settings(options: argparse.Namespace, adaptation: Adaptation) -> dict[str, Any]:
    """Return the options that decide the results, by name."""
    targets, reading = list(map(str, options.target)), adaptation.reading.words
    as_given = ("unlabelled", "allow_missing_classes", "folders_are_classes", "skip_unreadable", "weights")
    return {
        "--source": list(map(str, options.source)),
        "--target": targets[0] if len(targets) == 1 else targets,
        **{option_name(name): getattr(options, name) for name in as_given},
        BACKGROUND: reading[BACKGROUND],
        RANGE: options.range and reading[RANGE],
        **{option_name(name): value for name, value in {**vars(adaptation.learner), **adaptation.chosen}.items()},
        "--domains": domains_digest(options.domains) if options.domains else None,
    }


def _say(images: TaskImages, experiment: Experiment, notes: Notes, jobs: int, *, counted: bool) -> None:
    """Print what was found and what will be done with it."""
    for domain in images.domains:
        role = "source" if domain in images.sources else "target, labelled" if domain.labelled else "target"
        print(f"{domain.name} ({role}): {domain.found.counted()} in {domain.folder}")
    print(f"{len(images.classes)} classes: {some(images.classes)}")
    notes.say((*notes_on(images, experiment), *notes_on_copies(images, jobs)))
    if counted:
        notes.say(["the domains of the sources are counted before training (--k chooses their number)"])
    elif len(images.sources) == 1 and experiment.method.is_latent:
        notes.say([f"one source: it counts as a mixture of {experiment.k} domains (--k)"])


def main() -> None:
    options = _options()
    learner = choose_learner(options.network, options.fine_tune, options.image_size, options.solver_mode)
    paths = Paths(options.out)
    check_apart([*options.source, *options.target, paths.root], "a folder of its own for each domain and for OUT")
    check_name(paths.run)
    images = read_images(
        options.source,
        options.target,
        unlabelled=options.unlabelled,
        allow_missing_classes=options.allow_missing_classes,
        folders_are_classes=options.folders_are_classes,
    )
    _check_domains(options, images)
    command = shlex.join(["python", "-m", "tools.adapt", *sys.argv[1:]])
    chosen = with_defaults(learner, method_options(options))
    reading = chosen_reading(options, images.entries)
    names = ("weights", "jobs", "threads", "solver_mode", "skip_unreadable", "allow_missing_classes")
    how = {name: getattr(options, name) for name in names}
    adaptation = Adaptation(paths, images, learner, chosen, command, reading, **how)
    experiments = [experiment_of(each, images.counts) for each in adaptation.in_order]  # bad options end here
    with held(paths):
        _adapt(options, adaptation, experiments)


def _check_domains(options: argparse.Namespace, images: TaskImages) -> None:
    """Check that the file of domains, if any, has a row for each picture, before anything is built.

    Unreadable pictures become known later.
    """
    if options.domains and not options.skip_unreadable:
        named = [
            [(domain.name, entry.name) for domain in group for entry in domain.entries]
            for group in (images.sources, images.targets)
        ]
        rows_of(read_domains_file(options.domains), *named)


def _adapt(options: argparse.Namespace, adaptation: Adaptation, experiments: list[Experiment]) -> None:
    """Do what is missing in the folder; ``experiments`` are those of its adaptations in their order."""
    paths, adaptations, settings = adaptation.paths, adaptation.in_order, _settings(options, adaptation)
    replaces = options.force and paths.settings.is_file()
    if not replaces:
        by_default = [option_name(name) for name, value in method_options(options).items() if value is None]
        keep_settings(paths, settings, by_default=by_default)
        for each in adaptations:
            check_goes_on(each.paths)
    notes = Notes()
    counted = any(each.counts_domains for each in adaptations)
    _say(adaptation.images, experiments[-1], notes, adaptation.jobs, counted=counted)
    check_caffe()
    check_available(requested_mode(adaptation.solver_mode), "solver mode GPU")
    weights = [
        weights_to_begin(each, experiment, begins=replaces or not each.paths.is_begun)
        for each, experiment in zip(adaptations, experiments, strict=True)
    ]
    # Seconds to import: bad options end before.
    from latent_domains.adapt.results import contents, usage
    from latent_domains.adapt.stages import carry_out

    if replaces:  # now that the options are checked
        remove_results(paths, filter(None, weights))
        keep_settings(paths, settings)
    results: list[str] = []
    for each, experiment, begin in zip(adaptations, experiments, weights, strict=True):
        if results:
            following = f"Next step: fine-tune the whole net {adaptation.learner.network}."
            print("", *results, following, "", sep="\n", flush=True)
        results = carry_out(each, experiment, begin, notes)
    print("", *results, *contents(paths), "", *usage(paths), sep="\n")
