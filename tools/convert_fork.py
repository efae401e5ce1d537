"""Convert a net and weights of the authors' fork of Caffe (latent_domains_DA) into ours.

    python -m tools.convert_fork resnet18_k3.prototxt pacs.caffemodel converted/pacs --set CLASSES=7

reads the fork's net for training and tests, with one MultiModalBatchNorm layer for each latent domain, and its
caffemodel, and writes OUT.prototxt (from an image to its class probabilities, with the target's statistics),
OUT.caffemodel and, if they can be told, OUT_train.prototxt (the training net). One mDA layer stands for all layers
that normalise the domains of the same features. Layers have the names of our own nets wherever they do the same, so
that the weights load into those as well (python -m tools.train --weights).

Template fields (%NAME%) are filled by --set. Only those that the result depends on are needed: the training net's
batch sizes, slice point, image lists and weights of losses may all be left out, and there is no OUT_train.prototxt
then. Fields of tests (TEST_BS, TEST_LIST) are never needed.

Before anything gets its name, both sides compute the same inputs: the fork's net, with references of its layers that
are written from their formulas, and ours. Compared are all blobs that both have, in the deploy net and, if there is
one, in the training net, by the statistics of its batch and by the running ones of every domain.
"""

import argparse
import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import caffe
from caffe.proto.caffe_pb2 import NetParameter
from tqdm import tqdm

from tools.convert.compare import Difference, require, worst
from tools.convert.inputs import NOISE, images, noise
from tools.convert.model import Array, Model, about_lines, check_loads, model_files, weights_bytes
from tools.convert.options import add_force, add_verification
from tools.files import check_free, expect_file, write_together
from tools.fork import rows
from tools.fork.conversion import Conversion, Rewritten
from tools.fork.graph import Graph
from tools.fork.verify import Side, as_file, check, compare, compare_images, put, random_inputs, with_inputs
from tools.fork.weights import converted, kinds_of, random_blobs, read_blobs
from tools.nets.text import net_text
from tools.program import ProgramError, run


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.convert_fork",
        usage="%(prog)s [-h] NET WEIGHTS OUT [--set NAME=VALUE …] [options]\n"
        "       %(prog)s --no-weights NET OUT [--set NAME=VALUE …] [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("net", type=Path, metavar="NET", help="the fork's prototxt for both phases, with include rules")
    parser.add_argument("weights", type=Path, nargs="?", metavar="WEIGHTS", help="a caffemodel that the fork wrote")
    parser.add_argument("out", type=Path, metavar="OUT", help="what the files that are written begin with")
    parser.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a template field (repeatable)"
    )
    parser.add_argument("--no-weights", action="store_true", help="convert the nets alone; verify with random weights")
    parser.add_argument(
        "--input", type=_shape, metavar="C,H,W", help="size of the images, if the net's data layers do not tell"
    )
    add_force(parser)
    add_verification(parser)
    arguments = parser.parse_intermixed_args()
    if arguments.weights is None and not arguments.no_weights:
        parser.error("expected NET, WEIGHTS and OUT; --no-weights converts a net alone")
    if arguments.weights is not None and arguments.no_weights:
        parser.error(f"--no-weights: found WEIGHTS {arguments.weights}, expected NET and OUT alone")
    names = [name for name, _ in arguments.set]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        parser.error(f"--set: {', '.join(twice)} more than once")
    return arguments


def _setting(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not re.fullmatch(r"\w+", name) or not value or not value.isprintable():
        raise ArgumentTypeError(f"got {text!r}, expected NAME=VALUE, as CLASSES=7")
    return name, value


def _shape(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ArgumentTypeError(f"got {text!r}, expected channels, height and width, as 3,224,224")
    return tuple(int(part) for part in parts)


class _Converter:
    """One run of the program."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._fork = Conversion(arguments.net, dict(arguments.set), arguments.input)
        fork = self._fork
        for unknown in fork.unknown:
            print(
                f"warning: {fork.file}:{unknown.line}: {unknown.message} has no field {unknown.name}: passed over",
                file=sys.stderr,
            )
        # What is written, and what is tried: the training net with small batches.
        self._deploy = fork.our_deploy
        self._train: Rewritten | None = None
        self._tried: tuple[Graph, Rewritten] | None = None
        if not fork.lacks:
            self._train = fork.our_train(fork.train)
            small = rows.shrunk(fork.train, fork.file, NOISE)
            self._tried = with_inputs(small, fork.images.shape), _with_inputs(fork.our_train(small), fork)
        weighted = arguments.weights is not None
        self._files = output_files(arguments.out, weights=weighted, train=self._train is not None)
        inputs = [file for file in (arguments.net, arguments.weights) if file is not None]
        check_free(*self._files, force=arguments.force, inputs=inputs)  # before anything that takes time
        self._theirs, self._ours = self._read_weights()

    def _read_weights(self) -> tuple[dict[str, list[Array]], dict[str, list[Array]]]:
        """The blobs of both sides, by layer."""
        fork = self._fork
        graphs = [with_inputs(fork.parameters(), fork.images.shape), fork.deploy]
        nets = []
        phases = zip(graphs, ("TRAIN", "TEST"), strict=True)
        for graph, phase in tqdm(phases, desc="reading", total=len(graphs), leave=False):
            definition, _ = graph.definition()
            check(definition, f"{fork.file} ({phase} phase)")
            with as_file(definition) as file:
                nets.append(caffe.Net(str(file), caffe.TEST))
        kinds = kinds_of(*graphs)
        if self._arguments.weights is None:
            blobs = random_blobs(nets, kinds, self._arguments.seed)
        else:
            blobs = read_blobs(self._arguments.weights, nets, kinds)
        return blobs, converted(blobs, fork.groups, fork.names)

    def write(self) -> None:
        """Write the files, verified; say what was done."""
        arguments = self._arguments
        with write_together(*self._files, force=arguments.force) as asides:
            self._write(asides)
            if arguments.verify:
                self._verify(asides)
            else:
                check_loads(asides[0])
                print("not verified")
        print(f"wrote {', '.join(map(str, self._files))}")
        first, layers = self._fork.groups[0], dict.fromkeys(self._fork.names.mda.values())
        order = ", ".join(norm.name for norm in first.norms)
        print(f"{len(layers)} mDA layers: {', '.join(layers)}; domains of the first, in order: {order}")
        if self._fork.lacks:
            print(f"no training net: it takes values for {', '.join(self._fork.lacks)} too (--set NAME=VALUE)")

    def _write(self, asides: Sequence[Path]) -> None:
        arguments, out = self._arguments, self._arguments.out.name
        of = " and ".join(file.name for file in (arguments.net, arguments.weights) if file is not None)
        about = f"Converted by python -m tools.convert_fork from {of} of the authors' fork of Caffe."
        left = list(asides)
        definition = _definition(self._deploy)
        left.pop(0).write_text(about_lines(about) + net_text(out, definition))
        if arguments.weights is not None:
            definition.name = out
            left.pop(0).write_bytes(weights_bytes(Model(definition, self._ours)))
        if self._train is not None:
            left.pop(0).write_text(about_lines(about) + net_text(f"{out}_train", _definition(self._train)))

    def _verify(self, asides: Sequence[Path]) -> None:
        """Compare both sides; ours has the weights of the caffemodel that was written."""
        fork, seed = self._fork, self._arguments.seed
        fill = put(self._ours)
        if self._arguments.weights is not None:
            weights = str(asides[1])

            def fill(net: caffe.Net) -> None:
                net.copy_from(weights)

        check_loads(asides[0])
        theirs = Side(fork.deploy, {}, put(self._theirs))
        ours = Side(self._deploy.graph, self._deploy.blobs, fill)
        given = [(f"{NOISE} random inputs", noise(fork.images.shape, seed, fork.images.mean, fork.images.scale))]
        if self._arguments.images is not None:
            found, pixels = images(self._arguments.images, fork.images.shape, fork.images.mean, fork.images.scale)
            given.append((f"{len(found)} images", pixels))
        steps: list[tuple[str, Callable[[], list[Difference]]]] = [
            (f"deploy net, {said}", partial(compare_images, theirs, ours, fork.image_value, pixels))
            for said, pixels in given
        ]
        if self._tried is not None:
            graph, rewritten = self._tried
            check(_definition(rewritten), f"{self._arguments.out}_train.prototxt")
            sides = Side(graph, {}, put(self._theirs)), Side(rewritten.graph, rewritten.blobs, fill)
            inputs = random_inputs(graph, fork.images, self._classes(), seed)
            steps += [
                (f"training net, {said} statistics", partial(compare, *sides, phase, inputs, seed))
                for phase, said in ((caffe.TRAIN, "the batch's"), (caffe.TEST, "every domain's running"))
            ]
        for said, step in tqdm(steps, desc="verifying", leave=False):
            _judge(said, step())

    def _classes(self) -> int:
        """How many classes the scores have."""
        with as_file(_definition(self._deploy)) as file:
            return caffe.Net(str(file), caffe.TEST).blobs["prob"].data.shape[1]


def _judge(said: str, found: list[Difference]) -> None:
    """Print the largest difference; raise ProgramError if it is too large."""
    require(found)
    furthest = worst(found)
    tqdm.write(f"{said}: {len(found)} blobs, largest difference {furthest.relative:.1e} ({furthest.name})")


def _with_inputs(rewritten: Rewritten, fork: Conversion) -> Rewritten:
    return Rewritten(with_inputs(rewritten.graph, fork.images.shape), rewritten.blobs)


def _definition(rewritten: Rewritten) -> NetParameter:
    return rewritten.graph.definition(rewritten.blobs)[0]


def output_files(out: Path, *, weights: bool, train: bool) -> list[Path]:
    """The files that are written: deploy net, weights, training net."""
    net, caffemodel = model_files(out)
    return [net, *([caffemodel] if weights else []), *([out.with_name(f"{out.name}_train.prototxt")] if train else [])]


def main() -> None:
    """Convert, verify and write."""
    arguments = _arguments()
    if not arguments.out.name:
        raise ProgramError(f"OUT {arguments.out}: expected a name that the files begin with")
    for file in (arguments.net, arguments.weights):
        if file is not None:
            expect_file(file, "the fork's")
    _Converter(arguments).write()


if __name__ == "__main__":
    run(main)
