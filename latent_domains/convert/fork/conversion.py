"""A net of the fork's read, understood and written as ours."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import caffe

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork import rows, text
from latent_domains.convert.fork.deploy import ImageInput, deploy_graph, find_images, find_scores, images_of
from latent_domains.convert.fork.groups import find_groups
from latent_domains.convert.fork.names import Names, find_names
from latent_domains.convert.fork.rewrite import Rewritten, rewrite
from latent_domains.models.definition import for_phase
from latent_domains.models.graph import Graph, read_graph

_LOSSES = (text.ENTROPY, "SoftmaxWithLoss", "Accuracy")


class Conversion:
    """A fork's net with its template fields filled, as far as they are given: both phases and what becomes of them."""

    def __init__(self, file: Path, values: Mapping[str, str]) -> None:
        """Read and understand ``file``.

        ``values`` are those of its template fields. Raises ProgramError naming what is wrong with the file or missing.
        """
        self.file = file
        template = text.read_template(file)
        net = text.read_net(file, template, values)
        self.lacks = text.check_given(file, template, values)
        """Template fields that a training net would need as well; without them there is none."""
        train, test = (read_graph(for_phase(net, phase, file)) for phase in (caffe.TRAIN, caffe.TEST))
        train.check_made(where := f"{file}: in the TRAIN phase")
        self.train, self.groups = train, find_groups(train, where)
        if not any(norm.kind == text.MULTIMODAL for group in self.groups for norm in group.norms):
            raise ProgramError(f"{where}, no layer is a {text.MULTIMODAL}: it is no net of the authors' fork")
        self.names: Names = find_names(train, self.groups)
        scores = find_scores(test, file)
        used = test.part([scores])
        used.check_made(f"{file}: in the TEST phase")
        found, sources = find_images(used, scores, file)
        self.images: ImageInput = images_of(sources, file)
        self.deploy = deploy_graph(used, scores, found, self.images.shape)
        self.image_value = self.deploy.nodes[0].tops[0]

    @cached_property
    def our_deploy(self) -> Rewritten:
        """The deploy net: the target's statistics, or several latent targets with the branch that tells them apart.

        Raises ProgramError unless its groups are what those of the training net have there.
        """
        where, mda = f"{self.file}: in the TEST phase", self.names.mda
        groups = find_groups(self.deploy, where, mda)
        for group in groups:
            for norm in group.norms:
                if norm.name not in mda or mda[norm.name] != mda.get(group.norms[0].name):
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
        return rewrite(self.deploy, groups, self.names, {}, where)

    def our_train(self, train: Graph) -> Rewritten:
        """The training net in place of ``train``: the fork's, or it with other batch sizes.

        Raises ProgramError if its batch sizes and slice points do not agree.
        """
        where = f"{self.file}: in the TRAIN phase"
        return rewrite(train, find_groups(train, where), self.names, rows.segments(train, self.file), where)

    def small_train(self, most: int) -> Graph:
        """The training net with at most so many rows from each data layer. Raises as :meth:`our_train`."""
        return rows.shrunk(self.train, rows.segments(self.train, self.file), most)

    def parameters(self, train: Graph) -> Graph:
        """The layers of the training net ``train`` that may have parameters."""
        return Graph(train.name, [node for node in train.nodes if node.kind not in _LOSSES])
