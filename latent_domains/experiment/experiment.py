"""One experiment of the paper as data: dataset, sources, targets, method, k, known domain labels, seed.

Everything that differs between two runs stands here; everything that a dataset fixes stands in
:mod:`latent_domains.experiment.datasets`. The nets (:mod:`latent_domains.nets`) are functions of an
:class:`Experiment`.
"""

from dataclasses import dataclass, fields
from typing import Any

from latent_domains.common.json_values import decode
from latent_domains.common.program import ProgramError
from latent_domains.experiment import datasets
from latent_domains.experiment.datasets import DATASETS, Dataset
from latent_domains.experiment.networks import NETWORKS

_LARGEST = 10**8
"""Of any count: far beyond use, and within Caffe's 32 bits even times the number of domains."""

_LARGEST_SEED = 2**32 - 1
"""Caffe keeps the lower 32 bits of a seed."""

METHODS = {
    "plain": "source only, no normalisation",
    "source_only": "source only",
    "dial": "DIAL",
    "mda": "mDA",
    "multi_source": "multi-source",
}
"""The methods of the paper's tables and how they are called in tables and pictures."""

SOURCE_ONLY = ("plain", "source_only")
"""The methods that never see the target in training."""

BATCH_SPLITS = ("per_domain", "equally", "by_size")
"""How a batch is made of the domains: see :class:`latent_domains.experiment.datasets.Recipe`."""


@dataclass(frozen=True)
class Experiment:
    """A point of the paper's tables; build it with :func:`make_experiment`, which checks and fills in.

    ``data`` is the dataset: the paper's, or a description of one's own images.
    ``k`` is the number of source domains that the normalisation knows: 0 for ``plain`` (no normalisation) and
    ``source_only`` (plain BN), 1 for ``dial``, any k ≥ 1 for ``mda``, the number of sources for ``multi_source``.
    ``k_target`` is the number of target domains it knows: more than 1 are latent ones, predicted by a branch of their
    own, in tests too. ``undivided`` says that the sources come as one LMDB of unknown mixture. ``known_share`` is
    the share of source images whose domain label is known (Fig. 3). ``lambda_*`` weigh the terms of Eq. 7;
    ``lambda_b`` weighs the balance term, which is not the paper's (0 leaves it out). ``test_mirror`` mirrors test
    images at random, as the authors' published ResNet net does.
    """

    data: Dataset
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    method: str
    k: int
    k_target: int
    undivided: bool
    known_share: float
    seed: int
    iterations: int
    batch_size: int
    batch_split: str
    iter_size: int
    base_lr: float
    geometry: str
    test_mirror: bool
    lambda_c: float
    lambda_d: float
    lambda_t: float
    lambda_b: float

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
    def has_target_branch(self) -> bool:
        """Whether a side branch predicts target domains."""
        return self.k_target > 1

    @property
    def predicts_domains(self) -> bool:
        """Whether any side branch predicts domains."""
        return self.has_branch or self.has_target_branch

    @property
    def source_parts(self) -> tuple[str, ...]:
        """What the training images of the sources are read from: one LMDB per source, or the undivided one.

        A mixture has no order: it is named by its domains in the dataset's order.
        """
        if not self.undivided:
            return self.sources
        return ("+".join(domain for domain in self.data.domains if domain in self.sources),)

    @property
    def parts(self) -> tuple[str, ...]:
        """All that a training batch is read from, in the order of its rows: the sources, then the targets."""
        return (*self.source_parts, *(self.targets if self.sees_target else ()))

    @property
    def tests(self) -> dict[str, str]:
        """The target that each test net tests, by the net's name; a target whose labels nobody knows has none."""
        names = ["test"] if len(self.targets) == 1 else [f"test_{target}" for target in self.targets]
        tests = zip(names, self.targets, strict=True)
        return {name: target for name, target in tests if target not in self.data.unlabelled}

    def accuracy_name(self, target: str) -> str:
        """Name of the accuracy on ``target`` in its test net."""
        return "accuracy" if len(self.targets) == 1 else f"accuracy_{target}"

    @property
    def title(self) -> str:
        """The method and what was chosen for it, for tables and pictures."""
        parts = [METHODS[self.method]]
        if self.method == "mda":
            parts.append(f"k={self.k}")
        if self.has_target_branch:
            parts.append(f"{self.k_target} target domains")
        if self.undivided:
            parts.append("undivided source")
        if self.known_share:
            parts.append(f"{100 * self.known_share:g} % of domain labels known")
        if self.lambda_b:
            parts.append(f"balance λ_b={self.lambda_b:g}")
        return ", ".join(parts)

    @property
    def name(self) -> str:
        """A folder name that says what differs from the dataset's default experiment."""
        data, parts = self.data, [self.method]
        if self.method == "mda":
            parts.append(f"k{self.k}")
        if self.k_target != _default_k_target(self.method, self.targets):
            parts.append(f"kt{self.k_target}")
        if self.undivided:
            parts.append("undivided")
        if self.known_share:
            parts.append(f"known{100 * self.known_share:g}")
        if self.lambda_b:
            parts.append(f"balance{self.lambda_b:g}")
        recipe = data.recipe
        chosen = {
            "iterations": (self.iterations, recipe.iterations),
            "batch": (self.batch_size, recipe.batch_size),
            "split-": (self.batch_split, recipe.batch_split),
            "itersize": (self.iter_size, recipe.iter_size),
            "lr": (self.base_lr, recipe.base_lr),
            "geometry-": (self.geometry, NETWORKS[data.network].geometries[0]),
            "lambdac": (self.lambda_c, recipe.lambda_c),
            "lambdad": (self.lambda_d, recipe.lambda_d),
            "lambdat": (self.lambda_t, recipe.lambda_t),
        }
        parts += [f"{key}{value}" for key, (value, default) in chosen.items() if value != default]
        if self.test_mirror:
            parts.append("testmirror")
        if (self.sources, self.targets) != (data.sources, data.targets):
            parts.append(f"{'+'.join(self.sources)}-{self.target}")
        parts.append(f"seed{self.seed}")
        return "_".join(parts)

    def to_json(self) -> dict[str, Any]:
        """All that :func:`from_json` needs: the dataset by its name, or described in full if it is none of DATASETS."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "data"}
        described = self.data.name if DATASETS.get(self.data.name) == self.data else self.data.to_json()
        return {"dataset": described, **values}


def methods_of(data: Dataset) -> tuple[str, ...]:
    """The methods that a dataset's network knows: some nets are not trained without normalisation."""
    return tuple(method for method in METHODS if method != "plain" or NETWORKS[data.network].plain)


def _default_k_target(method: str, targets: tuple[str, ...]) -> int:
    if method in SOURCE_ONLY:
        return 0
    return len(targets) if method == "mda" else 1


def make_experiment(
    dataset: str | Dataset,
    method: str,
    *,
    sources: tuple[str, ...] | None = None,
    targets: tuple[str, ...] | None = None,
    k: int | None = None,
    k_target: int | None = None,
    undivided: bool = False,
    known_share: float = 0.0,
    seed: int = 0,
    iterations: int | None = None,
    batch_size: int | None = None,
    batch_split: str | None = None,
    iter_size: int | None = None,
    base_lr: float | None = None,
    geometry: str | None = None,
    test_mirror: bool = False,
    lambda_c: float | None = None,
    lambda_d: float | None = None,
    lambda_t: float | None = None,
    lambda_b: float = 0.0,
) -> Experiment:
    """Check a description and fill in the paper's values for what is None.

    Raises ProgramError naming the option, what it got and what it expected.
    """
    data = dataset if isinstance(dataset, Dataset) else datasets.named(dataset)
    recipe = data.recipe
    if method not in METHODS:
        raise ProgramError(f"method: got {method!r}, expected one of {', '.join(METHODS)}")
    network = NETWORKS[data.network]
    if method not in methods_of(data):
        raise ProgramError(
            f"method: got {method!r}; {network.title} is not trained without normalisation, expected another"
        )
    sources, targets = _domains(data, sources, targets)
    k = _checked_k(method, k, sources)
    k_target = _checked_k_target(method, k_target, targets)
    if undivided and method == "multi_source":
        raise ProgramError("undivided: got multi_source, whose source domains are known; expected another method")
    if not 0.0 <= known_share <= 1.0:
        raise ProgramError(f"known share: got {known_share}, expected a share from 0 to 1")
    if known_share and method != "mda":
        raise ProgramError(f"known share: got {known_share} for method {method}; only mda takes known domain labels")
    if known_share and k != len(sources):
        raise ProgramError(f"k: got {k}; with known domain labels expected the number of sources, {len(sources)}")
    if known_share and undivided:
        raise ProgramError(f"known share: got {known_share} for an undivided source, whose domains nobody knows")
    if not 0 <= seed <= _LARGEST_SEED:
        raise ProgramError(
            f"seed: got {seed}, expected 0 to {_LARGEST_SEED} (Caffe takes a negative seed as 'none' and keeps 32 bits)"
        )
    iterations = recipe.iterations if iterations is None else iterations
    batch_size = recipe.batch_size if batch_size is None else batch_size
    iter_size = recipe.iter_size if iter_size is None else iter_size
    for option, value in (("iterations", iterations), ("batch size", batch_size), ("iter size", iter_size)):
        if not 1 <= value <= _LARGEST:
            raise ProgramError(f"{option}: got {value}, expected at least 1 and at most {_LARGEST}")
    batch_split = recipe.batch_split if batch_split is None else batch_split
    if batch_split not in BATCH_SPLITS:
        raise ProgramError(f"batch split: got {batch_split!r}, expected one of {', '.join(BATCH_SPLITS)}")
    base_lr = recipe.base_lr if base_lr is None else base_lr
    if not 0.0 < base_lr < float("inf"):
        raise ProgramError(f"base lr: got {base_lr}, expected a finite learning rate above 0")
    geometry = network.geometries[0] if geometry is None else geometry
    if geometry not in network.geometries:
        raise ProgramError(f"geometry: got {geometry!r}, expected {' or '.join(network.geometries)} for {data.network}")
    lambdas = {
        "lambda_c": recipe.lambda_c if lambda_c is None else lambda_c,
        "lambda_d": recipe.lambda_d if lambda_d is None else lambda_d,
        "lambda_t": recipe.lambda_t if lambda_t is None else lambda_t,
        "lambda_b": lambda_b,
    }
    for option, value in lambdas.items():
        if not 0.0 <= value < float("inf"):
            raise ProgramError(f"{option}: got {value}, expected a finite weight of 0 or more")
    if lambda_b and (method != "mda" or k < 2):
        raise ProgramError(f"lambda_b: got {lambda_b} for {method} with k={k}; it balances the domains of mda, k >= 2")
    return Experiment(
        data,
        sources,
        targets,
        method,
        k,
        k_target,
        undivided,
        known_share,
        seed,
        iterations,
        batch_size,
        batch_split,
        iter_size,
        base_lr,
        geometry,
        test_mirror,
        **lambdas,
    )


def _domains(
    data: Dataset, sources: tuple[str, ...] | None, targets: tuple[str, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources and targets: the dataset's own; with targets alone, all other domains are sources."""
    known = ", ".join(data.domains)
    if targets is None:
        targets = data.targets
    if sources is None:
        sources = data.sources if targets == data.targets else data.others(targets)
    for role, chosen in (("sources", sources), ("targets", targets)):
        if not chosen:
            raise ProgramError(f"{role}: got none, expected some of {known} ({data.name})")
        for domain in chosen:
            if domain not in data.domains:
                raise ProgramError(f"{role}: got {domain!r}, expected one of {known} ({data.name})")
        if len(set(chosen)) != len(chosen):
            raise ProgramError(f"{role}: got {', '.join(chosen)}, expected each domain once")
    for domain in sources:
        if domain in targets:
            raise ProgramError(f"sources: {domain!r} is a target, expected other domains")
        if domain in data.unlabelled:
            raise ProgramError(f"sources: the images of {domain!r} have no labels, expected labelled domains")
    return sources, targets


def _checked_k(method: str, k: int | None, sources: tuple[str, ...]) -> int:
    fixed = {"plain": 0, "source_only": 0, "dial": 1, "multi_source": len(sources)}
    if method in fixed:
        if k not in (None, fixed[method]):
            raise ProgramError(f"k: got {k}, expected {fixed[method]} for {method} with {len(sources)} sources")
        return fixed[method]
    if k is None:
        return len(sources)
    if not 1 <= k <= _LARGEST:
        raise ProgramError(f"k: got {k}, expected at least 1 latent domain and at most {_LARGEST}")
    return k


def _checked_k_target(method: str, k_target: int | None, targets: tuple[str, ...]) -> int:
    default = _default_k_target(method, targets)
    if k_target is None:
        return default
    if method in (*SOURCE_ONLY, "dial"):
        if k_target != default:
            raise ProgramError(f"k_target: got {k_target}, expected {default} for {method}")
    elif not 1 <= k_target <= _LARGEST:
        raise ProgramError(f"k_target: got {k_target}, expected at least 1 target domain and at most {_LARGEST}")
    return k_target


def from_json(values: Any) -> Experiment:
    """The experiment that :meth:`Experiment.to_json` wrote.

    Raises ProgramError for missing or unknown keys, and for values of another type or out of range.
    """
    types = {field.name: field.type for field in fields(Experiment) if field.name != "data"}
    described = isinstance(values, dict) and isinstance(values.get("dataset"), dict)
    decoded = decode({"dataset": dict if described else str, **types}, values, "experiment description")
    if described:
        decoded["dataset"] = datasets.from_json(decoded["dataset"])
    return make_experiment(**decoded)
