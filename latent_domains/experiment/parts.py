"""Two parts of an experiment, its task and its net, and settings' short names. Method and recipe are elsewhere."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from latent_domains.common.program import ProgramError
from latent_domains.common.validation import Help, Positive
from latent_domains.data.names import check_shares, shares_text
from latent_domains.experiment.datasets import Dataset
from latent_domains.experiment.networks import NETWORKS
from latent_domains.experiment.recipe import Count
from latent_domains.networks.network import GEOMETRIES


@dataclass(frozen=True)
class Task:
    """The task: labelled source domains and unlabelled targets of a dataset.

    ``undivided``: the sources are one mixture of unknown domains, with ``shares`` in percent if they are given.
    """

    data: Dataset
    sources: Annotated[tuple[str, ...], Help("source domains (default: the paper's)", "A+B+…")]
    targets: Annotated[tuple[str, ...], Help("target domain or domains (default: the paper's)", "A+…")]
    undivided: Annotated[
        bool, Help("read the sources from one LMDB of unknown mixture, named A+B+… (python -m tools.join_lmdbs)")
    ] = False
    shares: Annotated[
        tuple[Count, ...],
        Help("read the sources from one LMDB, named A80+B20+…, with these percentages; implies --undivided", "P:P:…"),
    ] = ()

    def __post_init__(self) -> None:
        for role, chosen in (("sources", self.sources), ("targets", self.targets)):
            if not chosen or len(set(chosen)) != len(chosen) or not set(chosen) <= set(self.data.domains):
                expected = f"some of {', '.join(self.data.domains)} ({self.data.name}), each once"
                raise ProgramError(f"{role}: got {', '.join(map(repr, chosen)) or 'none'}, expected {expected}")
        for domain in self.sources:
            if domain in self.targets:
                raise ProgramError(f"sources: got {domain!r}, which is a target, expected other domains")
            if domain in self.data.unlabelled:
                raise ProgramError(f"sources: the images of {domain!r} have no labels, expected labelled domains")
        if self.shares:
            check_shares(self.shares, len(self.sources))
            if not self.undivided:
                raise ProgramError(f"shares: got {shares_text(self.shares)}, expected none for divided sources")

    @property
    def mixture(self) -> dict[str, int | None]:
        """The sources in the dataset's order and the share of each in percent; None if not given."""
        shares = dict(zip(self.sources, self.shares or [None] * len(self.sources), strict=True))
        return {domain: shares[domain] for domain in self.data.domains if domain in shares}

    @property
    def source_inputs(self) -> tuple[str, ...]:
        """The source images' LMDBs in training: one per source, or the undivided one.

        A mixture has no order: it is named by its domains, and their shares, in the dataset's order.
        """
        if not self.undivided:
            return self.sources
        return ("+".join(f"{domain}{share or ''}" for domain, share in self.mixture.items()),)

    @property
    def tests(self) -> dict[str, str]:
        """The target of each test net, by the net's name; a target without labels has none."""
        names = ["test"] if len(self.targets) == 1 else [f"test_{target}" for target in self.targets]
        tests = zip(names, self.targets, strict=True)
        return {name: target for name, target in tests if target not in self.data.unlabelled}

    def accuracy_name(self, target: str) -> str:
        """Return the name of the accuracy on ``target`` in its test net."""
        return "accuracy" if len(self.targets) == 1 else f"accuracy_{target}"


@dataclass(frozen=True)
class Net:
    """The network that is trained, and the size of its input.

    ``conv1_bias`` is a control: only the branch sees that bias, since mDA after conv1 subtracts it.
    """

    network: Annotated[Literal[*NETWORKS], Help("network to train (default: the dataset's)")]
    image_size: Annotated[
        Positive,
        Help(
            "side of the network's square input in pixels, with LMDBs of that size (default: the network's)",
            "SIDE",
        ),
    ]
    geometry: Annotated[
        Literal[*GEOMETRIES],
        Help("geometry of ResNet18: as in Torch, or as in the common Caffe model (default: torch)"),
    ]
    conv1_bias: Annotated[
        bool,
        Help(
            "give the first convolution of the digits net a bias",
            title=lambda _: "bias in conv1",
        ),
    ] = False


SHORT = {
    "method": "{}",
    "k": "k{}",
    "k_target": "kt{}",
    "undivided": "undivided",
    "shares": "shares{}",
    "known_share": "known{}",
    "style_share": "style{}",
    "domains": "domains-{}",
    "branch_norm": "branch-{}",
    "branch_input": "branch-on-{}",
    "domain_gain": "gain{:g}",
    "no_w_gradient": "nowgradient",
    "permuted_w": "permutedw",
    "equal_classes": "equalclasses",
    "conv1_bias": "conv1bias",
    "lambda_b": "balance{:g}",
    "iterations": "iterations{}",
    "batch_size": "batch{}",
    "batch_split": "split-{}",
    "data_order": "order-{}",
    "iter_size": "itersize{}",
    "base_lr": "lr{}",
    "network": "{}",
    "image_size": "size{}",
    "geometry": "geometry-{}",
    "head": "head-{}",
    "weight_decay": "decay{:g}",
    "lambda_c": "lambdac{}",
    "lambda_d": "lambdad{}",
    "lambda_t": "lambdat{}",
    "lambda_m": "lambdam{}",
    "test_mirror": "testmirror",
}
"""Short names of settings in folder names, in this order; other settings have their full names."""


def short(name: str, value: Any) -> str:
    """Return a setting's part of a folder name."""
    if name == "shares":
        value = "-".join(map(str, value))
    elif name in ("known_share", "style_share"):
        value = f"{100 * value:g}"
    return SHORT.get(name, f"{name.replace('_', '')}{{}}").format(value)
