"""One experiment of the paper as data: dataset, sources, target, method, k, known domain labels, seed.

Everything that differs between two runs stands here; everything that a dataset fixes stands in
:mod:`tools.datasets`. The nets are functions of an :class:`Experiment` (:mod:`tools.nets`).
"""

from dataclasses import asdict, dataclass, fields
from typing import Any

from tools.datasets import DATASETS, Dataset
from tools.program import ProgramError

_LARGEST = 10**8
"""Of any count: far beyond use, and within Caffe's 32 bits even times the number of domains."""

_LARGEST_SEED = 2**32 - 1
"""Caffe keeps the lower 32 bits of a seed."""

METHODS = {"source_only": "source only", "dial": "DIAL", "mda": "mDA", "multi_source": "multi-source"}
"""The methods of the paper's tables and how they are called in tables and pictures."""


@dataclass(frozen=True)
class Experiment:
    """A point of the paper's tables; build it with :func:`make_experiment`, which checks and fills in.

    ``k`` is the number of source domains that the normalisation knows: 0 for ``source_only`` (plain BN), 1 for
    ``dial``, any k ≥ 1 for ``mda``, the number of sources for ``multi_source``. ``known_share`` is the share of
    source images whose domain label is known (Fig. 3). ``lambda_*`` weigh the terms of Eq. 7; ``lambda_b`` weighs
    the balance term, which is not the paper's (0 leaves it out).
    """

    dataset: str
    sources: tuple[str, ...]
    target: str
    method: str
    k: int
    known_share: float
    seed: int
    iterations: int
    batch_size: int
    lambda_c: float
    lambda_d: float
    lambda_t: float
    lambda_b: float

    @property
    def data(self) -> Dataset:
        return DATASETS[self.dataset]

    @property
    def num_domains(self) -> int:
        """D of the mDA layers: the source domains and the target."""
        return self.k + 1

    @property
    def has_branch(self) -> bool:
        """Whether a side branch predicts domains (the other methods know or ignore them)."""
        return self.method == "mda"

    @property
    def title(self) -> str:
        """The method and what was chosen for it, for tables and pictures."""
        parts = [METHODS[self.method]]
        if self.method == "mda":
            parts.append(f"k={self.k}")
        if self.known_share:
            parts.append(f"{100 * self.known_share:g} % of domain labels known")
        if self.lambda_b:
            parts.append(f"balance λ_b={self.lambda_b:g}")
        return ", ".join(parts)

    @property
    def name(self) -> str:
        """A folder name that says what differs from the dataset's default experiment."""
        parts = [self.method]
        if self.method == "mda":
            parts.append(f"k{self.k}")
        if self.known_share:
            parts.append(f"known{100 * self.known_share:g}")
        if self.lambda_b:
            parts.append(f"balance{self.lambda_b:g}")
        if (self.sources, self.target) != (self.data.sources, self.data.target):
            parts.append(f"{'+'.join(self.sources)}-{self.target}")
        parts.append(f"seed{self.seed}")
        return "_".join(parts)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def make_experiment(
    dataset: str,
    method: str,
    *,
    sources: tuple[str, ...] | None = None,
    target: str | None = None,
    k: int | None = None,
    known_share: float = 0.0,
    seed: int = 0,
    iterations: int | None = None,
    batch_size: int | None = None,
    lambda_c: float | None = None,
    lambda_d: float | None = None,
    lambda_t: float | None = None,
    lambda_b: float = 0.0,
) -> Experiment:
    """Check a description and fill in the paper's values for what is None.

    Raises ProgramError naming the option, what it got and what it expected.
    """
    if dataset not in DATASETS:
        raise ProgramError(f"dataset: got {dataset!r}, expected one of {', '.join(DATASETS)}")
    data = DATASETS[dataset]
    if method not in METHODS:
        raise ProgramError(f"method: got {method!r}, expected one of {', '.join(METHODS)}")
    if target is None:
        target = data.target
    if sources is None:
        sources = data.sources if target == data.target else data.others(target)
    if not sources:
        raise ProgramError(f"sources: got none, expected some of {', '.join(data.domains)} ({dataset})")
    for role, domain in [("target", target), *(("sources", source) for source in sources)]:
        if domain not in data.domains:
            raise ProgramError(f"{role}: got {domain!r}, expected one of {', '.join(data.domains)} ({dataset})")
    if target in sources:
        raise ProgramError(f"sources: {target!r} is the target, expected other domains")
    if len(set(sources)) != len(sources):
        raise ProgramError(f"sources: got {', '.join(sources)}, expected each domain once")

    fixed_k = {"source_only": 0, "dial": 1, "multi_source": len(sources)}
    if method in fixed_k:
        if k not in (None, fixed_k[method]):
            raise ProgramError(f"k: got {k}, expected {fixed_k[method]} for {method} with {len(sources)} sources")
        k = fixed_k[method]
    elif k is None:
        k = len(sources)
    if method == "mda" and not 1 <= k <= _LARGEST:
        raise ProgramError(f"k: got {k}, expected at least 1 latent domain and at most {_LARGEST}")
    if not 0.0 <= known_share <= 1.0:
        raise ProgramError(f"known share: got {known_share}, expected a share from 0 to 1")
    if known_share and method != "mda":
        raise ProgramError(f"known share: got {known_share} for method {method}; only mda takes known domain labels")
    if known_share and k != len(sources):
        raise ProgramError(f"k: got {k}; with known domain labels expected the number of sources, {len(sources)}")
    if not 0 <= seed <= _LARGEST_SEED:
        raise ProgramError(
            f"seed: got {seed}, expected 0 to {_LARGEST_SEED} (Caffe takes a negative seed as 'none' and keeps 32 bits)"
        )
    iterations = data.recipe.iterations if iterations is None else iterations
    batch_size = data.recipe.batch_size if batch_size is None else batch_size
    for option, value in (("iterations", iterations), ("batch size", batch_size)):
        if not 1 <= value <= _LARGEST:
            raise ProgramError(f"{option}: got {value}, expected at least 1 and at most {_LARGEST}")
    lambdas = {
        "lambda_c": data.recipe.lambda_c if lambda_c is None else lambda_c,
        "lambda_d": data.recipe.lambda_d if lambda_d is None else lambda_d,
        "lambda_t": data.recipe.lambda_t if lambda_t is None else lambda_t,
        "lambda_b": lambda_b,
    }
    for option, value in lambdas.items():
        if not 0.0 <= value < float("inf"):
            raise ProgramError(f"{option}: got {value}, expected a finite weight of 0 or more")
    if lambda_b and (method != "mda" or k < 2):
        raise ProgramError(f"lambda_b: got {lambda_b} for {method} with k={k}; it balances the domains of mda, k >= 2")
    return Experiment(
        dataset, sources, target, method, k, known_share, seed, iterations, batch_size, **lambdas
    )


_JSON_TYPES = {
    str: (lambda value: type(value) is str, "a text"),
    int: (lambda value: type(value) is int, "an integer"),
    float: (lambda value: type(value) in (int, float), "a number"),
    tuple[str, ...]: (
        lambda value: type(value) in (list, tuple) and all(type(item) is str for item in value),
        "a list of texts",
    ),
}
"""For each type of an Experiment's field: whether a decoded JSON value is one, and how to say so."""


def from_json(values: Any) -> Experiment:
    """The experiment that :meth:`Experiment.to_json` wrote.

    Raises ProgramError for missing or unknown keys, and for values of another type or out of range.
    """
    if not isinstance(values, dict):
        raise ProgramError(f"experiment description: got {values!r}, expected an object")
    expected = {field.name: field.type for field in fields(Experiment)}
    if set(values) != set(expected):
        missing, unknown = sorted(set(expected) - set(values)), sorted(set(values) - set(expected))
        raise ProgramError(f"experiment description: missing keys {missing}, unknown keys {unknown}")
    for name, kind in expected.items():
        accepts, words = _JSON_TYPES[kind]
        if not accepts(values[name]):
            raise ProgramError(f"{name}: got {values[name]!r}, expected {words}")
    return make_experiment(**{**values, "sources": tuple(values["sources"])})
