"""What an architecture is: the parts that a net of :mod:`latent_domains.nets.family` is put together of."""

from dataclasses import dataclass, field
from typing import Protocol

from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.nets.blocks import Normalisation
from latent_domains.nets.branch import DomainClassifier


class Stem(Protocol):
    """The layers that the branches and the trunk share."""

    def __call__(self, n: NetSpec, data: Top, experiment: Experiment) -> Top: ...


class Branch(Protocol):
    """The features by which domains are predicted; the names of their layers begin with a prefix."""

    def __call__(self, n: NetSpec, stem: Top, experiment: Experiment, prefix: str) -> Top: ...


class Trunk(Protocol):
    """The rest of the net, normalised: class scores (N×classes)."""

    def __call__(self, n: NetSpec, stem: Top, normalise: Normalisation, experiment: Experiment) -> Top: ...


@dataclass(frozen=True)
class Architecture:
    """The parts of a net.

    ``domain_classifier`` is what a branch ends in; it sees only the rows that it decides about.
    ``branch_sees_all``: whether the rows of sources and targets go through the branch together, so that BN layers in it
    have the whole batch's statistics.
    """

    stem: Stem
    branch: Branch
    trunk: Trunk
    domain_classifier: DomainClassifier = field(default_factory=DomainClassifier)
    branch_sees_all: bool = False
