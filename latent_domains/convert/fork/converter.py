"""From the fork's net and weights to ours: read, convert, verify, write."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import caffe

from latent_domains.common.files import check_free, expect_file, write_together
from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.conversion import Conversion
from latent_domains.convert.fork.rewrite import Rewritten
from latent_domains.convert.fork.verify import Side, compare, random_inputs, with_inputs
from latent_domains.convert.fork.weights import converted, kinds_of, random_blobs, read_blobs
from latent_domains.convert.options import ConverterOptions
from latent_domains.models.compare import Difference, require, worst
from latent_domains.models.graph import Graph
from latent_domains.models.inputs import NOISE, in_batches, tried
from latent_domains.models.model import (
    Array,
    Model,
    about_lines,
    check_definition,
    check_loads,
    model_files,
    open_net,
    weights_bytes,
)
from latent_domains.models.prototxt import net_text


class Converter:
    """A net of the fork's, with its weights or without (None), on its way to the files that begin with ``out``."""

    def __init__(
        self,
        net: Path,
        weights: Path | None,
        out: Path,
        *,
        values: Mapping[str, str],
        options: ConverterOptions,
    ) -> None:
        """Read and convert. ``values`` are those of :class:`Conversion`.

        Raises ProgramError naming what is wrong with a file, or if one of the files to write exists and may not be
        replaced.
        """
        if not out.name:
            raise ProgramError(f"OUT {out}: expected a name that the files begin with")
        self._inputs = [file for file in (net, weights) if file is not None]
        for file in self._inputs:
            expect_file(file, "the fork's")
        self._weights, self._out, self._options = weights, out, options
        self._fork = fork = Conversion(net, values)
        # What is written, and what is tried: the training net with small batches.
        self._deploy = fork.our_deploy
        self._train: Rewritten | None = None
        self._tried: tuple[Graph, Rewritten] | None = None
        if not fork.lacks:
            self._train = fork.our_train(fork.train)
            small = fork.small_train(NOISE)
            ours = fork.our_train(small)
            shape = fork.images.shape
            self._tried = with_inputs(small, shape), Rewritten(with_inputs(ours.graph, shape), ours.blobs)
        text, caffemodel = model_files(out)
        self._files = [text] if weights is None else [text, caffemodel]
        if self._train is not None:
            self._files.append(out.with_name(f"{out.name}_train.prototxt"))
        check_free(*self._files, force=options.force, inputs=self._inputs)  # before anything that takes time
        self._theirs, self._ours = self._read_weights()

    def _read_weights(self) -> tuple[dict[str, list[Array]], dict[str, list[Array]]]:
        """The blobs of both sides, by layer."""
        fork = self._fork
        train = self._tried[0] if self._tried else with_inputs(fork.train, fork.images.shape)
        graphs = [fork.parameters(train), fork.deploy]
        nets = []
        for graph, phase in zip(graphs, ("TRAIN", "TEST"), strict=True):
            definition, _ = graph.definition()
            check_definition(definition, f"{fork.file} ({phase} phase)")
            nets.append(open_net(definition, caffe.TEST))
        kinds = kinds_of(*graphs)
        if self._weights is None:
            blobs = random_blobs(nets, kinds, self._options.seed)
        else:
            blobs = read_blobs(self._weights, nets, kinds)
        return blobs, converted(blobs, fork.groups, fork.names)

    def write(self) -> None:
        """Write the files, compare both sides if that is wanted, and say what was done."""
        with write_together(*self._files, force=self._options.force) as asides:
            self._write(asides)
            check_loads(asides[0])
            if self._tried is not None:
                check_definition(self._tried[1].definition(), f"{self._out}_train.prototxt")
            if self._options.verify:
                self._verify()
            else:
                print("not verified")
        print(f"wrote {', '.join(map(str, self._files))}")
        first, layers = self._fork.groups[0], dict.fromkeys(self._fork.names.mda.values())
        order = ", ".join(norm.name for norm in first.norms)
        print(f"{len(layers)} mDA layers: {', '.join(layers)}; domains of the first, in order: {order}")
        if self._fork.images.mean_file:
            print(f"note: the images' mean is a file, which is not converted: {self._fork.images.in_words()}")
        if self._fork.lacks:
            print(f"no training net: it takes values for {', '.join(self._fork.lacks)} too (--set NAME=VALUE)")

    def _write(self, asides: Sequence[Path]) -> None:
        out, of = self._out.name, " and ".join(file.name for file in self._inputs)
        about = f"Converted by python -m tools.convert_fork from {of} of the authors' fork of Caffe."
        left = list(asides)
        definition = self._deploy.definition()
        left.pop(0).write_text(about_lines(f"{about}\n{self._fork.images.in_words()}") + net_text(out, definition))
        if self._weights is not None:
            definition.name = out
            left.pop(0).write_bytes(weights_bytes(Model(definition, self._ours)))
        if self._train is not None:
            left.pop(0).write_text(about_lines(about) + net_text(f"{out}_train", self._train.definition()))

    def _verify(self) -> None:
        """Compare both sides on the same inputs."""
        fork, seed, theirs, ours = self._fork, self._options.seed, self._theirs, self._ours
        images = fork.images
        pixels, said = tried(images.shape, seed, self._options.images, images.mean, images.scale)
        inputs = [{fork.image_value: batch} for batch in in_batches(pixels)]
        sides = Side(fork.deploy, {}, theirs), Side(self._deploy.graph, self._deploy.blobs, ours)
        self._judge(f"deploy net, {said}", compare(*sides, caffe.TEST, inputs, seed))
        if self._tried is not None:
            graph, rewritten = self._tried
            sides = Side(graph, {}, theirs), Side(rewritten.graph, rewritten.blobs, ours)
            inputs = [random_inputs(graph, images, self._classes(), seed)]
            for phase, said in ((caffe.TRAIN, "the batch's"), (caffe.TEST, "every domain's running")):
                self._judge(f"training net, {said} statistics", compare(*sides, phase, inputs, seed))

    def _judge(self, said: str, found: list[Difference]) -> None:
        """Print the largest difference; raise ProgramError if it is too large."""
        require(self._inputs[-1], found)
        furthest = worst(found)
        print(f"{said}: {len(found)} blobs, largest difference {furthest.relative:.1e} ({furthest.name})")

    def _classes(self) -> int:
        """How many classes the scores have."""
        return open_net(self._deploy.definition(), caffe.TEST).blobs["prob"].data.shape[1]
