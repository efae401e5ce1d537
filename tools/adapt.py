"""Adapt a classifier to your own images: from folders to a model, predictions and a report.

    python -m tools.adapt --source photos --source drawings --target scans --out runs/scans
    python -m tools.adapt --source mixture --k 3 --target scans

Each --source is a tree of one folder a class and a domain of its own; a single one is taken for an undivided mixture,
in which --k latent domains are looked for. Each --target holds images that the classifier is for: in any folders or, if
they are called like the classes, in class folders, which then serve to measure the accuracy and for nothing else.
Several targets are one domain, or --k-target latent ones.

Without a GPU a classifier is trained on features of EfficientNet-Lite0, in minutes; its weights come as a Python
package. With one, ResNet18 is fine-tuned. --network chooses.

In OUT: the trained model in stock layers (model.*), predictions.csv for the target, domains.csv for the sources,
report.html, what logistic regression gets on the same features (baselines), nets and training (run), LMDBs (data), and
README.txt, which says what is what. Ctrl-C stops any stage; the same command goes on from there and, once all is done,
does nothing. On a processor the time that training takes is measured and said before it begins.
More: docs/own_images.md.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latent_domains.adapt import settings
from latent_domains.adapt.results import contents, usage
from latent_domains.adapt.stages import (
    CHOICES,
    about_batch,
    begin_anew,
    default_network,
    finish,
    make_task,
    open_run,
    train,
    with_defaults,
)
from latent_domains.adapt.task import Paths, build_lmdbs, extract_features, stored
from latent_domains.adapt.trees import TaskImages, about_numbers, check_apart, read_images
from latent_domains.adapt.weights import NONE, starting_weights
from latent_domains.adapt.worth import worth
from latent_domains.common.arguments import add_image_options, path, program_parser
from latent_domains.common.program import ROOT, from_root, run
from latent_domains.common.wording import some
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.options import add_method_options, method_options
from latent_domains.runs.devices import check_available, requested_mode
from latent_domains.runs.evaluate import summary
from latent_domains.runs.preflight import check_caffe
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import check_name
from latent_domains.training.options import add_training_options


def _options() -> argparse.Namespace:
    parser = program_parser("tools.adapt", __doc__)
    parser.add_argument(
        "--source",
        type=_folder,
        action="append",
        required=True,
        metavar="DIR",
        help="a domain: DIR/CLASS/…/IMAGE; may be repeated",
    )
    parser.add_argument(
        "--target",
        type=_folder,
        action="append",
        required=True,
        metavar="DIR",
        help="the images to adapt to; may be repeated",
    )
    parser.add_argument(
        "--out",
        type=_folder,
        default=ROOT / "runs" / "mine",
        metavar="DIR",
        help="new folder for all results (default: runs/mine)",
    )
    parser.add_argument("--unlabelled", action="store_true", help="folders of the targets are no labels")
    parser.add_argument("--allow-missing-classes", action="store_true", help="a source may lack some of the classes")
    parser.add_argument(
        "--folders-are-classes",
        action="store_true",
        help="the sources' folders are classes, though each holds the same folders, as domains do",
    )
    parser.add_argument("--skip-unreadable", action="store_true", help="name and leave out images that cannot be read")
    parser.add_argument(
        "--network",
        choices=CHOICES,
        help="lite0: a classifier on features of EfficientNet-Lite0, in minutes; the others are fine-tuned (default: "
        "resnet18 on a GPU, else lite0)",
    )
    parser.add_argument(
        "--weights",
        type=_weights,
        metavar=f"FILE|{NONE}",
        help="what fine-tuning begins with: a caffemodel, for ResNets also a checkpoint of PyTorch, or none: random "
        "weights (default: ImageNet's, fetched once to data/weights; none for mnist)",
    )
    add_method_options(
        parser,
        recipe="the network's",
        k="the number of sources; 2 for a single one",
        k_target="1",
        branch_norm="logits",
        branch_input="early on lite0, else final; final with latent targets",
        no_w_gradient="on lite0",
        lambda_d="0.1 on lite0, else the network's",
        data_order="shuffled",
    )
    parser.add_argument(
        "--w-gradient",
        dest="no_w_gradient",
        action="store_false",
        default=None,
        help="the losses on the classes reach that branch (default: where a net is fine-tuned)",
    )
    add_training_options(parser, jobs=None)
    add_image_options(parser)
    parser.add_argument("--force", action="store_true", help="begin anew, whatever an earlier call left in OUT")
    options = parser.parse_args()
    options.network = options.network or default_network(options.solver_mode)
    return options


def _folder(text: str) -> Path:
    """A folder's whole name: the work is done in another one."""
    whole = path(text).resolve()
    try:
        str(whole).encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"got {str(whole)!r}, expected a name in UTF-8") from None
    return whole


def _weights(text: str) -> str:
    return text if text == NONE else str(path(text).resolve())


def _settings(options: argparse.Namespace, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the results, by the options' names."""
    method = {f"--{name.replace('_', '-')}": value for name, value in chosen.items()}
    return {
        "--source": list(map(str, options.source)),
        "--target": str(options.target[0]) if len(options.target) == 1 else list(map(str, options.target)),
        "--unlabelled": options.unlabelled,
        "--allow-missing-classes": options.allow_missing_classes,
        "--folders-are-classes": options.folders_are_classes,
        "--skip-unreadable": options.skip_unreadable,
        "--network": options.network,
        "--weights": options.weights,
        **method,
    }


def _notes(images: TaskImages, experiment: Experiment) -> list[str]:
    cautions = [experiment.caution] if experiment.caution else []
    return [*images.notes, *about_numbers(images, experiment), *about_batch(images, experiment), *cautions]


def _say(images: TaskImages, experiment: Experiment) -> None:
    """Print what was found and what will be done with it."""
    for domain in images.domains:
        role = "source" if domain in images.sources else "target, labelled" if domain.labelled else "target"
        print(f"{domain.name} ({role}): {domain.found.counted()} in {domain.folder}")
    print(f"{len(images.classes)} classes: {some(images.classes)}")
    for note in _notes(images, experiment):
        print(f"note: {note}")
    if len(images.sources) == 1 and experiment.has_latent_sources:
        print(f"note: one source, taken for an undivided mixture: {experiment.k} domains are looked for in it (--k)")
    print(f"{experiment.title} on {experiment.data.learner}, {experiment.iterations} iterations", flush=True)


def main() -> None:
    options = _options()
    paths, chosen = Paths(options.out), with_defaults(options.network, method_options(options))
    command = shlex.join(["python", "-m", "tools.adapt", *sys.argv[1:]])
    check_apart([*options.source, *options.target, paths.root])
    check_name(paths.run)
    images = read_images(
        options.source,
        options.target,
        unlabelled=options.unlabelled,
        allow_missing_classes=options.allow_missing_classes,
        folders_are_classes=options.folders_are_classes,
    )
    found = {domain.name: len(domain.entries) for domain in images.domains}
    experiment = make_task(paths, images, options.network, chosen, found, command)  # bad options end here
    if options.force:
        begin_anew(paths)
    settings.keep(paths.settings, _settings(options, chosen), begun=paths.run.exists())
    _say(images, experiment)
    check_caffe()
    check_available(requested_mode(options.solver_mode), "solver mode GPU")
    weights = None
    if not paths.run.exists() or RunFolder.load(paths.run).snapshot_to_go_on_from() is None:
        weights = starting_weights(options.weights, experiment, paths.weights)
    counts = build_lmdbs(paths, images, options.network, jobs=options.jobs, skip_unreadable=options.skip_unreadable)
    told, experiment = _notes(images, experiment), make_task(paths, images, options.network, chosen, counts, command)
    if counts != found:
        for name, number in counts.items():
            if number != found[name]:
                print(f"note: {name}: {number} of {found[name]} images are used: the others could not be read")
        left = stored(paths, images, allow_missing_classes=options.allow_missing_classes)
        for note in _notes(left, experiment):
            if note not in told:
                print(f"note: {note}", flush=True)
    if experiment.data.features:
        extract_features(paths, options.network, experiment.data, options.jobs)
    folder = open_run(paths, experiment, options.solver_mode)
    train(folder, weights, options.threads, options.solver_mode)
    finish(paths, folder, images, jobs=options.jobs, solver_mode=options.solver_mode, command=command)
    result = f"{from_root(paths.root)}: {summary(folder, folder.read_record())}"
    print("", result, *worth(paths, folder), *contents(paths), "", *usage(paths, folder), sep="\n")


if __name__ == "__main__":
    run(main)
