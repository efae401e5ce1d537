"""A net of the fork's, read and understood, and ours in its place."""

from collections.abc import Mapping
from pathlib import Path

import caffe

from latent_domains.convert.fork.deploy import deploy_graph
from latent_domains.convert.fork.names import find_names
from latent_domains.convert.fork.rewrite import NamedGraph, rewrite
from latent_domains.convert.fork.structure import find_rows, target_groups, training_groups
from latent_domains.convert.fork.text import read_template
from latent_domains.models.definition import for_phase
from latent_domains.models.graph import Graph, read_graph


class Conversion:
    """A fork's net with its template fields filled, as far as they are given: both phases and what becomes of them."""

    def __init__(self, file: Path, values: Mapping[str, str]) -> None:
        """Read ``file``, with the ``values`` of its template fields.

        Raises ProgramError naming what is wrong with the file or missing.
        """
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

    def our_deploy(self) -> NamedGraph:
        """The deploy net: the target's statistics, or several latent targets with the branch that tells them apart.

        Raises ProgramError unless its groups are those of the training net.
        """
        where = f"{self.file}: in the TEST phase"
        groups = target_groups(self.deploy, self.groups, where)
        return rewrite(self.deploy, groups, self.names, self.num_domains, {}, where)

    def our_train(self, train: Graph) -> NamedGraph:
        """The training net in place of ``train``: the fork's, or it with other batch sizes.

        Raises ProgramError if its batch sizes and slice points do not agree.
        """
        where = f"{self.file}: in the TRAIN phase"
        rows, groups = find_rows(train, self.file), training_groups(train, where)
        return rewrite(train, groups, self.names, self.num_domains, rows, where)
