"""The options that describe an experiment."""

import argparse
from pathlib import Path
from typing import Any

from latent_domains.common.files import expect_file, read_json
from latent_domains.common.program import ProgramError
from latent_domains.experiment import datasets
from latent_domains.experiment.datasets import DATASETS, Dataset
from latent_domains.experiment.experiment import BATCH_SPLITS, METHODS, Experiment, make_experiment
from latent_domains.experiment.networks import GEOMETRIES


def add_experiment_options(parser: argparse.ArgumentParser) -> None:
    """The options that describe an experiment, for every program that takes one."""
    parser.add_argument(
        "--dataset",
        type=_dataset,
        default="digits",
        metavar=f"{{{','.join(DATASETS)},FILE}}",
        help="one of the paper's, or the description of another one (dataset.json, by python -m tools.adapt); "
        "default: %(default)s",
    )
    parser.add_argument("--sources", metavar="A+B+…", help="source domains (default: the paper's)")
    parser.add_argument("--targets", "--target", metavar="A+…", help="target domain or domains (default: the paper's)")
    parser.add_argument(
        "--k-target", type=int, help="target domains of mDA, latent if more than 1 (default: the number of targets)"
    )
    parser.add_argument(
        "--undivided",
        action="store_true",
        help="the sources come as one LMDB of unknown mixture, named A+B+… (python -m tools.join_lmdbs)",
    )
    parser.add_argument(
        "--test-mirror", action="store_true", help="mirror test images at random, as the authors' ResNet net does"
    )
    add_method_options(parser)


def _dataset(text: str) -> Dataset:
    """A dataset by its name, or the one that a file describes."""
    if not text.endswith(".json"):
        if text not in DATASETS:
            raise argparse.ArgumentTypeError(f"got {text!r}, expected one of {', '.join(DATASETS)}, or FILE.json")
        return DATASETS[text]
    try:
        expect_file(Path(text), "the description of a dataset")
        return datasets.from_json(read_json(Path(text), ()))
    except ProgramError as error:
        raise argparse.ArgumentTypeError(f"{text}: {str(error).removeprefix(f'{text}: ')}") from error


def add_method_options(parser: argparse.ArgumentParser) -> None:
    """The options that say what is done with a dataset, whichever it is."""
    parser.add_argument("--method", choices=METHODS, default="mda", help="default: %(default)s")
    parser.add_argument("--k", type=int, help="latent source domains of mda (default: the number of sources)")
    parser.add_argument(
        "--known-share",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of source images whose domain label is known, 0 to 1 (default: 0)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of initialisation and of the known labels")
    parser.add_argument("--iterations", type=int, help="training iterations (default: the dataset's)")
    parser.add_argument("--batch-size", type=int, help="images in a batch, see --batch-split (default: the dataset's)")
    parser.add_argument(
        "--batch-split",
        choices=BATCH_SPLITS,
        help="whether --batch-size counts the images of each domain, or those of the whole batch, shared out equally "
        "or by the domains' sizes (default: the dataset's)",
    )
    parser.add_argument("--iter-size", type=int, help="batches that make one iteration (default: the dataset's)")
    parser.add_argument("--base-lr", type=float, help="initial learning rate (default: the dataset's)")
    parser.add_argument(
        "--geometry",
        choices=GEOMETRIES,
        help="of ResNet18: Torch's own, or that of the widespread Caffe model (default: torch)",
    )
    parser.add_argument("--lambda-c", type=float, help="weight of the target's class entropy (default: the paper's)")
    parser.add_argument("--lambda-d", type=float, help="weight of the domain entropy (default: the paper's)")
    parser.add_argument("--lambda-t", type=float, help="weight of the domain log-loss (default: the paper's)")
    parser.add_argument(
        "--lambda-b",
        type=float,
        default=0.0,
        help="weight of the balance term, which rewards using all k domains; not the paper's (default: 0, off)",
    )


def method_options(options: argparse.Namespace) -> dict[str, Any]:
    """What :func:`add_method_options`' options say, by the names of :func:`make_experiment`."""
    names = (
        "method",
        "k",
        "known_share",
        "seed",
        "iterations",
        "batch_size",
        "batch_split",
        "iter_size",
        "base_lr",
        "geometry",
        "lambda_c",
        "lambda_d",
        "lambda_t",
        "lambda_b",
    )
    return {name: getattr(options, name) for name in names}


def experiment_from_options(options: argparse.Namespace) -> Experiment:
    """The experiment that :func:`add_experiment_options`' options describe."""
    return make_experiment(
        options.dataset,
        sources=tuple(options.sources.split("+")) if options.sources is not None else None,
        targets=tuple(options.targets.split("+")) if options.targets is not None else None,
        k_target=options.k_target,
        undivided=options.undivided,
        test_mirror=options.test_mirror,
        **method_options(options),
    )
