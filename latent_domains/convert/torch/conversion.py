"""The program that converts ResNets, which has two names: its options, and what it does."""

import argparse
from pathlib import Path

from latent_domains.common.arguments import natural, program_parser, real
from latent_domains.common.files import check_free
from latent_domains.convert.options import add_converter_options
from latent_domains.convert.torch.comparison import MDA_MEAN, compare, numbers, report, require_file
from latent_domains.convert.torch.read import read_resnet
from latent_domains.convert.torch.torch_reference import torch_resnet
from latent_domains.convert.torch.torch_resnet import Standardisation, mda_model, plain_model
from latent_domains.data.image_list import shown
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.inputs import tried
from latent_domains.models.model import model_files, weights_bytes, write_model
from latent_domains.nets.resnet import SHAPE

IMAGENET = Standardisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""What torchvision and fb.resnet.torch train with."""

MOST_DOMAINS = 1000
"""Far beyond use, and within memory."""


def _options(program: str, description: str) -> argparse.Namespace:
    parser = program_parser(f"tools.{program}", description)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the file to read")
    parser.add_argument("out", type=Path, metavar="OUT", help="beginning of the names of the files to write")
    parser.add_argument("--no-head", action="store_true", help="leave the classifier out")
    default = make_experiment("pacs", "mda").num_domains
    parser.add_argument(
        "--num-domains",
        type=_domains,
        action="append",
        metavar="D",
        help="domains, source and target together, of mDA nets that weights are written for; repeated, a file for each "
        f"(default: {default}, as for PACS)",
    )
    parser.add_argument("--no-mda", action="store_true", help="write no weights for mDA nets")
    for option, default_values, read, what in (
        ("--mean", IMAGENET.mean, _mean, "mean that the checkpoint's net subtracts from pixels of 0 to 1"),
        ("--std", IMAGENET.std, _std, "standard deviation that it divides them by"),
    ):
        parser.add_argument(
            option,
            type=read,
            nargs=3,
            default=default_values,
            metavar=("R", "G", "B"),
            help=f"{what} (default: {' '.join(map(str, default_values))})",
        )
    add_converter_options(parser)
    options = parser.parse_args()
    if options.no_mda and options.num_domains:
        parser.error("--num-domains asks for weights of mDA nets, --no-mda for none: expected one of them")
    options.num_domains = [] if options.no_mda else options.num_domains or [default]
    return options


def _domains(text: str) -> int:
    value = natural(text)
    if not 2 <= value <= MOST_DOMAINS:
        raise argparse.ArgumentTypeError(
            f"got {value}, expected at least 2 (a source domain and the target) and at most {MOST_DOMAINS}"
        )
    return value


def _mean(text: str) -> float:
    return real(text, lambda value: 0 <= value <= 1, "a mean of pixels from 0 to 1")


def _std(text: str) -> float:
    return real(text, lambda value: 0.001 <= value <= 1, "a standard deviation of pixels from 0 to 1, at least 0.001")


def convert(program: str, description: str) -> None:
    """Read, convert, compare, write, as the command line of a ``program`` says; ``description`` is its help."""
    options = _options(program, description)
    net_file, weights_file = model_files(options.out)
    mda_files = {
        number: options.out.with_name(f"{options.out.name}_mda{number}.caffemodel") for number in options.num_domains
    }
    files = (net_file, weights_file, *mda_files.values())
    check_free(*files, force=options.force, inputs=[options.checkpoint])
    standardisation = Standardisation(tuple(options.mean), tuple(options.std))
    net = read_resnet(options.checkpoint, head=not options.no_head)
    print(f"{options.checkpoint}: ResNet{net.layers}, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in net.notes:
        print(f"note: {note}")
    plain = plain_model(net, standardisation)
    mda = {number: mda_model(net, standardisation, number, MDA_MEAN) for number in mda_files}
    if options.verify:
        pixels, inputs = tried(SHAPE, options.seed, options.images)
        comparison = compare(torch_resnet(net, standardisation), standardisation.caffe_mean, plain, mda, pixels)
        require_file(weights_file, comparison.plain)
        for number, rows in comparison.mda.items():
            require_file(mda_files[number], rows)
        report(comparison, mda_files, inputs)
    else:
        print("not verified")
    about = (
        f"Input: B, G, R from 0 to 255 less the mean {numbers(standardisation.caffe_mean)}. "
        "Zeros around it are that mean, as in Torch.\n"
        f"ResNet{net.layers} of {shown(Path(options.checkpoint.name))}, by python -m tools.{program}."
    )
    of_mda = {mda_files[number]: weights_bytes(model) for number, model in mda.items()}
    write_model(plain, options.out, about=about, force=options.force, beside=of_mda)
    print(f"wrote {', '.join(map(str, files))}")
