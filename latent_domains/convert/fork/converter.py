"""From the fork's net and weights to ours: read, convert, verify, write."""

from collections.abc import Mapping
from pathlib import Path

import caffe

from latent_domains.common.files import check_free, expect_file
from latent_domains.convert.fork.rewrite import rewrite
from latent_domains.convert.fork.structure import ENTROPY, find_rows, read_template, target_groups, training_groups
from latent_domains.convert.fork.verify import compare, deploy_graph, random_inputs, with_inputs
from latent_domains.convert.fork.weights import Blobs, converted, find_names, read_blobs
from latent_domains.convert.options import ConverterOptions
from latent_domains.models.compare import Difference, in_batches, require, tried, worst
from latent_domains.models.graph import Graph, read_graph
from latent_domains.models.model import (
    Model,
    about_lines,
    check_definition,
    check_loads,
    model_files,
    open_net,
    write_model,
)
from latent_domains.models.prototxt import for_phase, net_text
from latent_domains.nets.family import COMMENTS

_LOSSES = (ENTROPY, "SoftmaxWithLoss", "Accuracy")


class Conversion:
    """A fork's net with its template fields filled, as far as they are given: both phases, and their conversion."""

    def __init__(self, file: Path, values: Mapping[str, str]) -> None:
        """Read ``file``, with the ``values`` of its template fields."""
        self.file = file
        net, self.missing = read_template(file, values)
        """``missing`` are template fields that a training net would need as well; without them there is none."""
        self.train, test = (read_graph(for_phase(net, phase, file)) for phase in (caffe.TRAIN, caffe.TEST))
        self.train.check_made(where := f"{file}: in the TRAIN phase")
        self.groups = training_groups(self.train, where)
        self.names = find_names(self.train, self.groups)
        self.num_domains = len(self.groups[0].norms)
        self.deploy, self.images = deploy_graph(test, file)
        self.pixels = self.deploy.nodes[0].tops[0]
        """The value of the deploy net's input."""

    def our_deploy(self) -> Graph:
        """Return the deploy net: the target's statistics, or several latent targets with the branch that predicts them.

        Refuses groups that differ from those of the training net.
        """
        where = f"{self.file}: in the TEST phase"
        groups = target_groups(self.deploy, self.groups, where)
        return rewrite(self.deploy, groups, self.names, self.num_domains, {}, where)

    def our_train(self, train: Graph) -> Graph:
        """Return our training net for ``train``: the fork's, or the fork's with other batch sizes.

        Refuses batch sizes and slice points that do not agree.
        """
        where = f"{self.file}: in the TRAIN phase"
        rows, groups = find_rows(train, self.file), training_groups(train, where)
        return rewrite(train, groups, self.names, self.num_domains, rows, where)


def convert(net: Path, weights: Path, out: Path, *, values: Mapping[str, str], options: ConverterOptions) -> None:
    """Convert a net of the fork with its ``weights``, compare both, and write files whose names begin with OUT.

    ``values`` are those of the net's template fields. Prints what was done. Refuses to write a net whose results
    differ.
    """
    for file in (net, weights):
        expect_file(file, "the fork's")
    fork = Conversion(net, values)
    deploy = fork.our_deploy()
    train = None if fork.missing else fork.our_train(fork.train)
    train_file = out.with_name(f"{out.name}_train.prototxt")
    files = [*model_files(out), *([train_file] if train else [])]
    check_free(*files, force=options.force, inputs=(net, weights))  # before anything that takes time

    small = with_inputs(fork.train, fork.images.shape, find_rows(fork.train, net) if train else None)
    theirs = _read_weights(fork, small, weights)
    ours = converted(theirs, fork.groups, fork.names)
    about = (
        f"Converted by python -m tools.convert_fork from {net.name} and {weights.name} of the authors' fork of Caffe."
    )
    beside = {}
    if train is not None:
        beside[train_file] = about_lines(about) + net_text(f"{out.name}_train", train.definition()[0], COMMENTS)

    def check(text: Path, _: Path) -> None:
        check_loads(text)
        tried = None if train is None else (small, fork.our_train(small))
        if tried:
            check_definition(tried[1].definition()[0], str(train_file))
        if options.verify:
            _verify(fork, deploy, tried, (theirs, ours), weights, options)
        else:
            print("not verified")

    definition, _ = deploy.definition()
    definition.name = out.name
    about = f"{about}\n{fork.images.in_words()}"
    write_model(Model(definition, ours), out, about=about, force=options.force, check=check, beside=beside)
    _report(fork, files)


def _read_weights(fork: Conversion, train: Graph, weights: Path) -> Blobs:
    """Return the blobs of both phases by layer."""
    graphs = [Graph(train.name, [node for node in train.nodes if node.kind not in _LOSSES]), fork.deploy]
    nets = []
    for graph, phase in zip(graphs, ("TRAIN", "TEST"), strict=True):
        definition, _ = graph.definition()
        check_definition(definition, f"{fork.file} ({phase} phase)")
        nets.append(open_net(definition, caffe.TEST))
    return read_blobs(weights, nets)


def _verify(
    fork: Conversion,
    deploy: Graph,
    train: tuple[Graph, Graph] | None,
    blobs: tuple[Blobs, Blobs],
    file: Path,
    options: ConverterOptions,
) -> None:
    """Compare the deploy nets and, if there are some, the training nets; raise ProgramError naming ``file``."""

    def judge(said: str, found: list[Difference]) -> None:
        require(file, found)
        furthest = worst(found)
        print(f"{said}: {len(found)} blobs, largest difference {furthest.relative:.1e} ({furthest.name})")

    images = fork.images
    pixels, said = tried(images.shape, options.images, images.transform)
    batches = [{fork.pixels: batch} for batch in in_batches(pixels)]
    judge(f"deploy net, {said}", compare(fork.deploy, deploy, blobs, caffe.TEST, batches))
    if train is not None:
        classes = open_net(deploy.definition()[0], caffe.TEST).blobs["prob"].data.shape[1]
        batches = [random_inputs(train[0], images, classes)]
        for phase, whose in ((caffe.TRAIN, "the batch's"), (caffe.TEST, "every domain's running")):
            judge(f"training net, {whose} statistics", compare(*train, blobs, phase, batches))


def _report(fork: Conversion, files: list[Path]) -> None:
    print(f"wrote {', '.join(map(str, files))}")
    layers = dict.fromkeys(fork.names.mda.values())
    order = ", ".join(norm.name for norm in fork.groups[0].norms)
    print(f"{len(layers)} mDA layers: {', '.join(layers)}; domains of the first, in order: {order}")
    if fork.images.mean_file:
        print(f"note: the images' mean is a file, which is not converted: {fork.images.in_words()}")
    if fork.missing:
        print(f"no training net: it takes values for {', '.join(fork.missing)} too (--set NAME=VALUE)")
