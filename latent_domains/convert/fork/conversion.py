"""A net of the fork's, read and understood, and ours in its place."""

from collections.abc import Mapping
from pathlib import Path

import caffe

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork import text
from latent_domains.convert.fork.deploy import deploy_graph
from latent_domains.convert.fork.groups import find_groups
from latent_domains.convert.fork.names import find_names
from latent_domains.convert.fork.rewrite import NamedGraph, rewrite
from latent_domains.convert.fork.rows import find_rows
from latent_domains.models.definition import for_phase
from latent_domains.models.graph import Graph, read_graph


class Conversion:
    """A fork's net with its template fields filled, as far as they are given: both phases and what becomes of them."""

    def __init__(self, file: Path, values: Mapping[str, str]) -> None:
        """Read ``file``, with the ``values`` of its template fields.

        Raises ProgramError naming what is wrong with the file or missing.
        """
        self.file = file
        template = text.read_template(file)
        net = text.read_net(file, template, values)
        self.missing = text.check_given(file, template, values)
        """Template fields that a training net would need as well; without them there is none."""
        train, test = (read_graph(for_phase(net, phase, file)) for phase in (caffe.TRAIN, caffe.TEST))
        train.check_made(where := f"{file}: in the TRAIN phase")
        self.train, self.groups = train, find_groups(train, where)
        if not any(norm.kind == text.MULTIMODAL for group in self.groups for norm in group.norms):
            raise ProgramError(f"{where}, no layer is a {text.MULTIMODAL}: it is no net of the authors' fork")
        self.names = find_names(train, self.groups)
        self.deploy, self.images = deploy_graph(test, file)
        self.pixels = self.deploy.nodes[0].tops[0]
        """The value of the deploy net's input."""

    def our_deploy(self) -> NamedGraph:
        """The deploy net: the target's statistics, or several latent targets with the branch that tells them apart.

        Raises ProgramError unless its groups are those of the training net.
        """
        where, mda = f"{self.file}: in the TEST phase", self.names.mda
        groups = find_groups(self.deploy, where, mda)
        found = set()
        for group in groups:
            layers = {mda.get(norm.name) for norm in group.norms}
            if len(layers) > 1 or None in layers:
                raise ProgramError(
                    f"{where}: layers {', '.join(norm.title for norm in group.norms)} do not normalise the same "
                    "features in the TRAIN phase"
                )
            found |= layers
        for group in self.groups:
            if mda[group.norms[0].name] not in found:
                raise ProgramError(
                    f"{where}: no layer normalises what {group.root.title} does in the TRAIN phase; expected "
                    f"{' and '.join(norm.name for norm in group.parts[-1].norms)}"
                )
        return rewrite(self.deploy, groups, self.names, {}, where)

    def our_train(self, train: Graph) -> NamedGraph:
        """The training net in place of ``train``: the fork's, or it with other batch sizes.

        Raises ProgramError if its batch sizes and slice points do not agree.
        """
        where = f"{self.file}: in the TRAIN phase"
        return rewrite(train, find_groups(train, where), self.names, find_rows(train, self.file), where)
