"""A net of the fork's read, understood and written as ours."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import caffe
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork import messages, rows, text
from latent_domains.convert.fork.deploy import ImageInput, deploy_graph, find_images, find_scores, images_of
from latent_domains.convert.fork.groups import Group, Recogniser, check_same_assignment
from latent_domains.convert.fork.names import Names, check_single, find_names
from latent_domains.convert.fork.rewrite import Rewritten, rewrite
from latent_domains.convert.fork.text import Place
from latent_domains.models.definition import for_phase
from latent_domains.models.graph import Graph, Value, read_graph

_SIZE = {"crop_size", "new_height", "new_width", "is_color", "mean_value", "scale"}
"""Fields of data layers that the deploy net depends on."""

_TRAINING = (("loss_weight",), ("slice_param", "slice_point"))
"""Fields that the training net alone depends on, besides those of its data layers."""


_EVEN = 60
"""Rows from each data layer that any Slice divides into equal parts."""


class Conversion:
    """A fork's net with its template fields filled, as far as they are given: both phases and what becomes of them."""

    def __init__(self, file: Path, values: Mapping[str, str], shape: tuple[int, ...] | None) -> None:
        """Read and understand ``file``.

        ``values`` are those of its template fields; ``shape`` (C×H×W) that of the images, if it does not tell. Raises
        ProgramError naming what is wrong with the file or missing.
        """
        self.file = file
        try:
            template = file.read_text()
        except UnicodeDecodeError as error:
            raise ProgramError(f"{file}: not a prototxt of the authors' fork of Caffe: {error}") from error
        places = text.places(file, template)
        if odd := [name for name in values if name not in places]:
            raise ProgramError(
                f"--set {', '.join(odd)}: {file} has no such template field; it has "
                f"{', '.join(sorted(places)) or 'none'}"
            )
        fork, self.unknown = text.parse(file, text.filled(file, template, values))
        net = messages.stock(file, fork)
        train, test = (read_graph(for_phase(net, phase, file)) for phase in (caffe.TRAIN, caffe.TEST))
        train.check_made(where := f"{file}: in the TRAIN phase")
        groups = Recogniser(train, where).groups()
        if not any(norm.kind == messages.MULTIMODAL for group in groups for norm in group.norms):
            raise ProgramError(f"{where}, no layer is a {messages.MULTIMODAL}: it is no net of the authors' fork")
        check_same_assignment(groups, where)
        self.train, self.groups = train, groups
        self.names: Names = find_names(train, groups, file)
        self.scores = find_scores(test, file)
        self._check_given(net, test, places, values)
        used = test.part([self.scores])
        used.check_made(f"{file}: in the TEST phase")
        found, sources = find_images(used, self.scores, file)
        self.images: ImageInput = images_of(sources, shape, file)
        self.deploy = deploy_graph(used, self.scores, found, self.images.shape)
        self.image_value = self.deploy.nodes[0].tops[0]

    @cached_property
    def our_deploy(self) -> Rewritten:
        """The deploy net: the target's statistics, or several latent targets with the branch that tells them apart."""
        targets = {norm.name for group in self.groups for norm in group.norms}
        where = f"{self.file}: in the TEST phase"
        groups = Recogniser(self.deploy, where).groups(targets)
        self._check_groups(groups, where)
        check_same_assignment(groups, where)
        found = rewrite(self.deploy, groups, self.names, {}, where)
        check_single(found.graph, [self.deploy.nodes[0].name, self.deploy.nodes[-1].name], where)
        return found

    def our_train(self, train: Graph) -> Rewritten:
        """The training net in place of ``train``: the fork's, or it with other batch sizes.

        Raises ProgramError if its batch sizes and slice points do not agree.
        """
        known = rows.segments(train, self.file)
        rows.check_labels(train, known, self.file)
        where = f"{self.file}: in the TRAIN phase"
        return rewrite(train, Recogniser(train, where).groups(), self.names, known, where)

    def parameters(self) -> Graph:
        """The layers of the training net that may have parameters, with batches that fit each other."""
        labels: set[Value] = set()
        nodes = []
        for node in rows.evenly(self.train, _EVEN).nodes:
            if rows.is_data(node):
                labels.update(node.tops[1:])
            if labels.intersection(node.bottoms):
                labels.update(node.tops)
            elif node.kind not in (messages.ENTROPY, "Silence"):
                nodes.append(node)
        return Graph(self.train.name, nodes)

    def _check_groups(self, groups: list[Group], where: str) -> None:
        """Raise ProgramError unless the groups of the test net are what those of the training net have there."""
        mda = self.names.mda
        for group in groups:
            for norm in group.norms:
                if mda.get(norm.name) != mda.get(group.norms[0].name) or norm.name not in mda:
                    raise ProgramError(
                        f"{where}: layer {norm.said} is not what it is in the TRAIN phase: a domain's normalisation of "
                        f"the same features{'' if norm is group.norms[0] else f' as {group.norms[0].name}'}"
                    )
        found = {mda[group.norms[0].name] for group in groups}
        for group in self.groups:
            if mda[group.norms[0].name] not in found:
                raise ProgramError(
                    f"{where}: no layer normalises what {group.root.said} does in the TRAIN phase; expected "
                    f"{' and '.join(norm.name for norm in group.parts[-1].norms)}"
                )

    def _check_given(
        self, net: NetParameter, test: Graph, places: Mapping[str, list[Place]], values: Mapping[str, str]
    ) -> None:
        """Raise ProgramError with all template fields that are missing; find whether there is a training net."""
        in_train = dict(zip(_numbers(net, caffe.TRAIN, self.file), self.train.nodes, strict=True))
        deployed = set(test.ancestors([self.scores]))
        in_deploy = {
            number: node
            for number, node in zip(_numbers(net, caffe.TEST, self.file), test.nodes, strict=True)
            if node in deployed
        }

        def needed(place: Place) -> bool:
            if place.layer in in_deploy:
                return not rows.is_data(in_deploy[place.layer]) or place.path[-1] in _SIZE
            if place.layer in in_train:
                return not rows.is_data(in_train[place.layer]) and place.path not in _TRAINING
            return False

        always = {name for name, found in places.items() if any(needed(place) for place in found)}
        training = {name for name, found in places.items() if any(place.layer in in_train for place in found)} - always
        missing = sorted(always - set(values))
        if training.intersection(values):
            missing += sorted(training - set(values))
        if missing:
            more = sorted(training - set(values) - set(missing))
            also = f" (and for a training net also {', '.join(more)})" if more else ""
            raise ProgramError(
                f"{self.file}: it needs a value for {', '.join(missing)}: give each with --set NAME=VALUE{also}"
            )
        self.lacks = sorted(training - set(values))
        """Template fields that a training net would need as well; without them there is none."""


def _numbers(net: NetParameter, phase: int, file: Path) -> list[int | None]:
    """Which layers of the file the layers of a phase are."""
    marked = NetParameter()
    marked.CopyFrom(net)
    for number, layer in enumerate(marked.layer):
        layer.name = str(number)
    found = for_phase(marked, phase, file).layer
    own = len(found) - sum(layer.name.isdecimal() for layer in found)
    return [None if i < own else int(layer.name) for i, layer in enumerate(found)]
