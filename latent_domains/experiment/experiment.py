"""One experiment of the paper as data: dataset, sources, targets, method, k, known domain labels, seed.

Everything that differs between two runs is here; everything that a dataset fixes is in
:mod:`latent_domains.experiment.datasets`. The nets (:mod:`latent_domains.nets`) are functions of an
:class:`Experiment`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import PurePath
from typing import Annotated, Any, Literal

from annotated_types import Interval

from latent_domains.common.program import ProgramError
from latent_domains.common.validation import Natural, Positive, Proportion, Rate, Weight, checked
from latent_domains.data.shares import check_shares, shares_text
from latent_domains.experiment import datasets
from latent_domains.experiment.datasets import DATASETS, BatchSplit, Count, DataOrder, Dataset
from latent_domains.experiment.networks import GEOMETRIES, NETWORKS

METHODS = {
    "plain": "source only, no normalisation",
    "source_only": "source only",
    "dial": "DIAL",
    "mda": "mDA",
    "multi_source": "multi-source",
    "random_w": "random balanced w",
    "kmeans_w": "k-means w",
    "style_w": "clusters of style as w",
    "ghost_w": "ghost parts",
}
"""The methods of the paper's tables, then our controls, and how they are called in tables and pictures."""

CONTROLS = ("random_w", "kmeans_w", "style_w", "ghost_w")
"""Controls: methods without a branch. They give each source image one of k latent domains, to see whether mDA does more
than any division into k. "random_w" draws equal numbers; "kmeans_w" clusters each channel's mean and deviation;
"style_w" clusters the pictures' style, with the class as a nuisance. "ghost_w" draws equal numbers for each batch."""

LATENT = ("mda", *CONTROLS)
"""The methods for which k is a choice."""

SOURCE_ONLY = ("plain", "source_only")
"""The methods that never see the target in training."""

BRANCH_NORMS = {
    "none": "no normalisation in the branch",
    "layers": "",
    "centred": "centred branch features",
    "logits": "centred logits",
}
"""What BN normalises in a branch that predicts domains (:class:`Experiment`), and how titles say it."""

BRANCH_INPUTS = {"final": "", "early": "branch on early statistics"}
"""What a branch reads where the records are features of a backbone, and how titles say it."""

_MOST_DOMAINS = 256
"""More domains than images in a batch are of no use, and they take memory."""

_Domains = Annotated[int, Interval(ge=0, le=_MOST_DOMAINS)]

RECIPE = "the dataset's"
"""The default of a setting that is a field of the dataset's recipe as well."""


def _setting(in_name: Callable[[Any], str], help: str, default: Any = None, **option: Any) -> Any:
    """A field of :class:`Experiment` that can be chosen; its type has its bounds.

    ``in_name`` makes its part of a folder's name. ``default`` is a value, RECIPE, or None: see :func:`_defaults`.
    ``help`` and ``option`` describe its option on command lines (:mod:`latent_domains.experiment.options`).
    """
    return field(metadata={"in_name": in_name, "help": help, "default": default, "option": option})


@dataclass(frozen=True)
class Experiment:
    """A point of the paper's tables; build it with :func:`make_experiment`, which checks and fills in.

    This is the one table of settings: from it come the options of programs, the keys of experiments/*.yaml, names of
    run folders, and what is written as JSON and read again. Each field's help says what it is. Rules between settings
    are in :func:`_check`.

    ``data`` is the dataset for the ``network`` that is trained and squares of side ``image_size``. ``k`` is the number
    of source domains that the normalisation knows: 0 for ``plain`` (no normalisation) and ``source_only`` (plain BN), 1
    for ``dial``, any k ≥ 1 for ``mda`` and any k ≥ 2 for its controls, the number of sources for ``multi_source``.
    ``k_target`` is the number of target domains. If there are several, they are latent, and a second branch predicts
    them, in tests too. ``branch_norm`` "layers" is how we read the paper: BN behind each layer of the branch that has
    parameters, except the last. It uses the branch's own images; in ResNets it uses the whole batch. ``conv1_bias`` is
    a control: only the branch sees that bias, since mDA behind conv1 subtracts it. ``lambda_*`` weigh the terms of
    Eq. 7.
    """

    data: Dataset
    sources: tuple[str, ...] = _setting("+".join, "source domains (default: the paper's)", metavar="A+B+…")
    targets: tuple[str, ...] = _setting("+".join, "target domain or domains (default: the paper's)", metavar="A+…")
    method: Literal[*METHODS] = _setting("{}".format, "how domains are aligned", "mda")
    k: _Domains = _setting(
        "k{}".format,
        "latent source domains of mda and its controls (default: the number of sources)",
    )
    k_target: _Domains = _setting(
        "kt{}".format, "target domains, latent if more than 1 (default: the number of targets; dial has 1)"
    )
    undivided: bool = _setting(
        "undivided".format,
        "read the sources from one LMDB of unknown mixture, named A+B+… (python -m tools.join_lmdbs)",
        False,
    )
    shares: tuple[Count, ...] = _setting(
        lambda shares: f"shares{'-'.join(map(str, shares))}",
        "read the sources from one LMDB, named A80+B20+…, with these percentages; implies --undivided",
        metavar="P:P:…",
    )
    known_share: Proportion = _setting(
        lambda share: f"known{100 * share:g}",
        "share of source images whose domain label is known, 0 to 1",
        0.0,
        metavar="SHARE",
    )
    style_share: Proportion = _setting(
        lambda share: f"style{100 * share:g}",
        "share of source images, the surest of each cluster of their style, whose cluster is taken for their known "
        "domain, 0 to 1; not in the paper",
        0.0,
        metavar="SHARE",
    )
    branch_norm: Literal[*BRANCH_NORMS] = _setting(
        "branch-{}".format,
        "what BN normalises in the branch that predicts domains: none: nothing; layers: the outputs of its layers, as "
        "in the paper; centred: the input of the domain classifier (may divide latent targets by class), logits: its "
        "logits, both without affine and not in the paper (default: layers)",
    )
    branch_input: Literal[*BRANCH_INPUTS] = _setting(
        "branch-on-{}".format,
        "what the branch reads from a dataset of features: the final features, or the statistics of early blocks "
        "that the dataset has beside them; the latter is not in the paper (default: final)",
    )
    domain_gain: Rate = _setting("gain{:g}".format, "factor of the normalised logits of --branch-norm logits", 1.0)
    no_w_gradient: bool = _setting(
        "nowgradient".format, "do not train the branch that predicts domains by the losses on the classes", False
    )
    permuted_w: bool = _setting(
        "permutedw".format,
        "a control: permute the rows of w in each batch, within each class and true domain",
        False,
    )
    equal_classes: bool = _setting(
        "equalclasses".format,
        "draw source images so that all classes are equally frequent in each LMDB of the sources and, where domains "
        "are found or known before training, in each domain of it; not in the paper",
        False,
    )
    conv1_bias: bool = _setting("conv1bias".format, "give the first convolution of the digits net a bias", False)
    lambda_b: Weight = _setting(
        "balance{:g}".format, "weight of the balance term, which rewards using all k domains; not in the paper", 0.0
    )
    iterations: Count = _setting("iterations{}".format, "training iterations", RECIPE)
    batch_size: Count = _setting("batch{}".format, "images in a batch, counted as --batch-split says", RECIPE)
    batch_split: BatchSplit = _setting(
        "split-{}".format,
        "what --batch-size counts: the images of each domain; those of all sources together and those of each target "
        "(per_group); or the whole batch, divided equally or by the domains' sizes",
        RECIPE,
    )
    data_order: DataOrder = _setting(
        "order-{}".format,
        "order of the training images: as stored in the LMDB, or shuffled in every epoch, by --seed",
        RECIPE,
    )
    iter_size: Count = _setting("itersize{}".format, "batches in one iteration", RECIPE)
    base_lr: Rate = _setting("lr{}".format, "initial learning rate", RECIPE)
    network: Literal[*NETWORKS] = _setting("{}".format, "the network that is trained (default: the dataset's)")
    image_size: Positive = _setting(
        "size{}".format,
        "side of the network's square input, with LMDBs of get_data --image-size (default: the network's)",
        metavar="SIDE",
    )
    geometry: Literal[*GEOMETRIES] = _setting(
        "geometry-{}".format, "geometry of ResNet18: as in Torch, or as in the common Caffe model (default: torch)"
    )
    lambda_c: Weight = _setting("lambdac{}".format, "weight of the target's class entropy", RECIPE)
    lambda_d: Weight = _setting("lambdad{}".format, "weight of the domain entropy", RECIPE)
    lambda_t: Weight = _setting("lambdat{}".format, "weight of the domain log-loss", RECIPE)
    test_mirror: bool = _setting(
        "testmirror".format, "mirror test images at random, as the authors' ResNet net does", False
    )
    seed: Natural = _setting(
        "seed{}".format,
        "seed of initial weights, order and crops of images, known labels, domains of random_w, clusters",
        0,
    )

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self.data.name

    @property
    def target(self) -> str:
        """The targets' names in one, for messages and titles."""
        return "+".join(self.targets)

    @property
    def num_domains(self) -> int:
        """D of the mDA layers: the source domains and the target domains."""
        return self.k + self.k_target

    @property
    def sees_target(self) -> bool:
        """Whether target images are in the training batches."""
        return self.method not in SOURCE_ONLY

    @property
    def has_branch(self) -> bool:
        """Whether a side branch predicts source domains (the other methods know or ignore them)."""
        return self.method == "mda"

    @property
    def has_latent_sources(self) -> bool:
        """Whether the source domains are latent ones: predicted by a branch, or a control's."""
        return self.method in LATENT

    @property
    def reads_domain_labels(self) -> bool:
        """Whether the training net reads domain labels of the source images."""
        known = self.known_share > 0 or self.style_share > 0 or self.method in CONTROLS
        return known or (self.undivided and self.method == "multi_source")

    @property
    def reads_style(self) -> bool:
        """Whether latent domains are found by statistics of the source images' style, before training."""
        return self.method == "style_w" or self.style_share > 0

    @property
    def style_lmdbs(self) -> tuple[str, ...]:
        """LMDBs of these statistics, relative to the data folder; none where they are not read."""
        sources = self.sources if self.reads_style else ()
        return tuple(f"{self.data.style}/{PurePath(self.data.train_lmdb(source)).name}" for source in sources)

    @property
    def has_target_branch(self) -> bool:
        """Whether a side branch predicts target domains."""
        return self.k_target > 1

    @property
    def predicts_domains(self) -> bool:
        """Whether any side branch predicts domains."""
        return self.has_branch or self.has_target_branch

    @property
    def source_inputs(self) -> tuple[str, ...]:
        """The source images' LMDBs in training: one per source, or the undivided one.

        A mixture has no order: it is named by its domains, and their shares, in the dataset's order.
        """
        if not self.undivided:
            return self.sources
        return ("+".join(f"{domain}{share or ''}" for domain, share in self.mixture.items()),)

    @property
    def mixture(self) -> dict[str, int | None]:
        """The sources in the dataset's order and the share of each in percent, None if it is not chosen."""
        shares = dict(zip(self.sources, self.shares or [None] * len(self.sources), strict=True))
        return {domain: shares[domain] for domain in self.data.domains if domain in shares}

    @property
    def batch_inputs(self) -> tuple[str, ...]:
        """All that a training batch is read from, in the order of its rows: the sources, then the targets."""
        return (*self.source_inputs, *(self.targets if self.sees_target else ()))

    @property
    def tests(self) -> dict[str, str]:
        """The target that each test net tests, by the net's name; a target without labels has none."""
        names = ["test"] if len(self.targets) == 1 else [f"test_{target}" for target in self.targets]
        tests = zip(names, self.targets, strict=True)
        return {name: target for name, target in tests if target not in self.data.unlabelled}

    def accuracy_name(self, target: str) -> str:
        """Name of the accuracy on ``target`` in its test net."""
        return "accuracy" if len(self.targets) == 1 else f"accuracy_{target}"

    @property
    def title(self) -> str:
        """The method and what was chosen for it, for tables and pictures."""
        said = [
            (True, METHODS[self.method]),
            (self.has_latent_sources, f"k={self.k}"),
            (self.has_target_branch, f"{self.k_target} target domains"),
            (self.undivided, f"undivided source {shares_text(self.shares)}".rstrip()),
            (self.known_share, f"{100 * self.known_share:g} % of domain labels known"),
            (self.style_share, f"{100 * self.style_share:g} % of clusters of style known"),
            (self.predicts_domains, BRANCH_NORMS[self.branch_norm]),
            (True, BRANCH_INPUTS[self.branch_input]),
            (self.domain_gain != 1, f"gain {self.domain_gain:g}"),
            (self.no_w_gradient, "no gradient through w"),
            (self.permuted_w, "w permuted"),
            (self.equal_classes, "equal classes"),
            (self.conv1_bias, "bias in conv1"),
            (self.lambda_b, f"balance λ_b={self.lambda_b:g}"),
        ]
        return ", ".join(text for holds, text in said if holds and text)

    @property
    def name(self) -> str:
        """A folder name that says what differs from the dataset's default experiment."""
        usual = _defaults(self.data, self.method, self.sources, self.targets)
        own = DATASETS.get(self.data.name, self.data)
        usual |= {"network": own.network, "image_size": datasets.adapted(own, self.network, None).shape[-1]}
        always = ("method", "k", "seed") if self.has_latent_sources else ("method", "seed")
        said = {name: setting.metadata["in_name"](getattr(self, name)) for name, setting in SETTINGS.items()}
        domains = f"{said.pop('sources')}-{said.pop('targets')}"
        parts = [text for name, text in said.items() if name in always or getattr(self, name) != usual[name]]
        if (self.sources, self.targets) != (self.data.sources, self.data.targets):
            parts.insert(-1, domains)
        return "_".join(parts)

    def to_json(self) -> dict[str, Any]:
        """All that :func:`from_json` needs: the dataset by its name, or described in full if it is none of DATASETS."""
        named = DATASETS.get(self.data.name)
        known = named and datasets.adapted(named, self.network, self.image_size) == self.data
        described = self.data.name if known else self.data.to_json()
        return {"dataset": described, **{name: getattr(self, name) for name in SETTINGS}}


SETTINGS = {setting.name: setting for setting in fields(Experiment) if setting.metadata}
"""The fields of :class:`Experiment` that can be chosen, by name."""

LATER = ("style_share",)
"""Settings that older descriptions of runs do not have: their default leaves everything as it was."""

_Settings = make_dataclass("_Settings", [(name, setting.type) for name, setting in SETTINGS.items()])


def methods_of(data: Dataset) -> tuple[str, ...]:
    """The methods that a dataset's network knows: some nets are not trained without normalisation."""
    return tuple(method for method in METHODS if method != "plain" or NETWORKS[data.network].plain)


def _defaults(
    data: Dataset, method: str, sources: tuple[str, ...] | None, targets: tuple[str, ...] | None
) -> dict[str, Any]:
    """The default of every setting; with targets alone, all other domains are sources."""
    targets = data.targets if targets is None else targets
    if sources is None:
        others = tuple(domain for domain in data.domains if domain not in targets)
        sources = data.sources if targets == data.targets else others
    constants = {name: setting.metadata["default"] for name, setting in SETTINGS.items()}
    return {
        **{name: getattr(data.recipe, name) if value is RECIPE else value for name, value in constants.items()},
        "sources": sources,
        "targets": targets,
        "method": method,
        "shares": (),
        "k": {"plain": 0, "source_only": 0, "dial": 1}.get(method, len(sources)),
        "k_target": {"plain": 0, "source_only": 0, "dial": 1}.get(method, len(targets)),
        "branch_norm": "layers",
        "branch_input": "final",
        "network": data.network,
        "image_size": data.shape[-1],
        "geometry": NETWORKS[data.network].geometries[0],
    }


def make_experiment(dataset: str | Dataset, method: str, **settings: Any) -> Experiment:
    """Check the settings that were chosen, by the names of SETTINGS, and fill in the paper's values for what is None.

    Raises ProgramError naming the setting, what was found and what was expected.
    """
    data = dataset if isinstance(dataset, Dataset) else datasets.named(dataset)
    chosen = {name: value for name, value in settings.items() if value is not None}
    data = datasets.adapted(data, chosen.get("network"), chosen.get("image_size"))
    if chosen.get("shares"):
        chosen["undivided"] = True
    return _made(data, {**_defaults(data, method, chosen.get("sources"), chosen.get("targets")), **chosen})


def from_json(values: Any) -> Experiment:
    """The experiment that :meth:`Experiment.to_json` wrote.

    Raises ProgramError for missing or unknown keys, and for values of another type or out of range.
    """
    if not isinstance(values, dict):
        raise ProgramError(f"experiment: found {values!r}, expected an object")
    settings = with_later_settings(values)
    dataset = settings.pop("dataset", None)
    if not isinstance(dataset, str | dict):
        raise ProgramError(f"experiment: dataset: found {dataset!r}, expected a name or a description")
    data = datasets.named(dataset) if isinstance(dataset, str) else datasets.from_json(dataset)
    return _made(data, settings)


def with_later_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """What :meth:`Experiment.to_json` wrote, with the default of a setting that there was none of when it did."""
    return {name: SETTINGS[name].metadata["default"] for name in LATER} | values


def _made(data: Dataset, settings: dict[str, Any]) -> Experiment:
    found = checked(_Settings, settings, "")
    experiment = Experiment(datasets.adapted(data, found.network, found.image_size), **vars(found))
    _check(experiment)
    return experiment


def _check(experiment: Experiment) -> None:
    """The rules between settings: raise ProgramError naming one that does not go with the others."""
    _check_domains(experiment.data, experiment.sources, experiment.targets)
    if experiment.shares:
        check_shares(experiment.shares, len(experiment.sources))
    for name, is_broken, expected in _rules(experiment):
        if is_broken:
            found = getattr(experiment, name)
            shown = shares_text(found) if name == "shares" else repr(found)
            raise ProgramError(f"{name}: got {shown}, expected {expected}")


def _rules(experiment: Experiment) -> Iterator[tuple[str, bool, str]]:
    """Yield a setting, whether its value breaks a rule, and what is expected of it."""
    data, method, k, k_target = experiment.data, experiment.method, experiment.k, experiment.k_target
    share, undivided, number = experiment.known_share > 0, experiment.undivided, len(experiment.sources)
    styled = experiment.style_share > 0
    network, usual = NETWORKS[data.network], _defaults(data, method, experiment.sources, experiment.targets)
    fixed_target = method in (*SOURCE_ONLY, "dial")
    unusual = {name for name in SETTINGS if getattr(experiment, name) != usual[name]}
    no_branch, no_target = f"{method} has no branch that predicts domains", f"{method} trains on no target images"

    yield "method", method not in methods_of(data), f"another: {network.title} is not trained without normalisation"
    yield "k", method not in LATENT and k != usual["k"], f"{usual['k']} for {method} with {number} sources"
    yield "k", method == "mda" and k < 1, "at least 1 latent domain"
    yield "k", method in CONTROLS and k < 2, f"at least 2 latent domains for {method}: with one it is dial"
    yield "k_target", fixed_target and k_target != usual["k_target"], f"{usual['k_target']} for {method}"
    yield "k_target", method not in SOURCE_ONLY and k_target < 1, "at least 1 target domain"
    yield "shares", bool(experiment.shares) and not undivided, "none for divided sources"
    yield "known_share", share and method != "mda", f"0 for {method}: only mda takes known domain labels"
    yield "k", share and k != number, f"the number of sources, {number}, with known domain labels"
    yield "known_share", share and undivided, "0 for an undivided source, whose domains nobody knows"
    yield "style_share", styled and method != "mda", f"0 for {method}: only mda takes known domain labels"
    yield "style_share", styled and share, "0 with known_share: one of them says which domains are known"
    yield "style_share", styled and k < 2, "0 with a single latent domain"
    yield (
        "geometry",
        experiment.geometry not in network.geometries,
        f"{' or '.join(network.geometries)}: {network.name}",
    )
    no_early = experiment.branch_input == "early" and not data.early
    yield "branch_input", no_early, f"'final': {data.name} has no statistics of early blocks"
    yield "conv1_bias", experiment.conv1_bias and network.module != "mnist", f"the digits net, found {network.name}"
    no_permutation = not experiment.has_branch or undivided
    yield "permuted_w", experiment.permuted_w and no_permutation, "False but for mda with sources that are told apart"
    for name in ("branch_norm", "branch_input", "domain_gain", "no_w_gradient", "lambda_d"):
        yield name, name in unusual and not experiment.predicts_domains, f"{usual[name]!r}: {no_branch}"
    yield "lambda_c", "lambda_c" in unusual and not experiment.sees_target, f"{usual['lambda_c']}: {no_target}"
    yield (
        "lambda_t",
        "lambda_t" in unusual and not (share or styled),
        f"{usual['lambda_t']} without known_share or style_share",
    )
    no_gain = experiment.domain_gain != 1 and experiment.branch_norm != "logits"
    yield "domain_gain", no_gain, "1: it is a factor of normalised logits (branch_norm logits)"
    balances = method == "mda" and k >= 2
    yield "lambda_b", experiment.lambda_b > 0 and not balances, "0: it balances the domains of mda with k of at least 2"


def _check_domains(data: Dataset, sources: tuple[str, ...], targets: tuple[str, ...]) -> None:
    for role, chosen in (("sources", sources), ("targets", targets)):
        if not chosen or len(set(chosen)) != len(chosen) or not set(chosen) <= set(data.domains):
            expected = f"some of {', '.join(data.domains)} ({data.name}), each once"
            raise ProgramError(f"{role}: got {', '.join(map(repr, chosen)) or 'none'}, expected {expected}")
    for domain in sources:
        if domain in targets:
            raise ProgramError(f"sources: got {domain!r}, which is a target, expected other domains")
        if domain in data.unlabelled:
            raise ProgramError(f"sources: the images of {domain!r} have no labels, expected labelled domains")
