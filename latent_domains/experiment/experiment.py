"""One experiment of the paper as data: the task, the method, the recipe, the net and the seed.

Each part has its own settings, whose types have their bounds. The nets (:mod:`latent_domains.nets`) are functions of an
:class:`Experiment`. Command lines and tables use only the settings' names (SETTINGS): :func:`make_experiment` finds the
parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, TypeVar

from latent_domains.common.program import ProgramError
from latent_domains.common.validation import Help, Natural, check_keys, checked, checked_fields, hints
from latent_domains.data.domains_file import domains_digest, read_domains_file
from latent_domains.data.names import shares_text
from latent_domains.experiment import datasets
from latent_domains.experiment.datasets import DATASETS, Dataset, adapted, with_head
from latent_domains.experiment.methods import METHODS, Aligned, Mda, Method, Plain
from latent_domains.experiment.networks import ANY_FEATURES, NETWORKS
from latent_domains.experiment.parts import SHORT, Net, Task, short
from latent_domains.experiment.recipe import Recipe

SCHEMA = 2
"""Version of an experiment as JSON. New settings do not change it: a missing setting has its default."""


@dataclass(frozen=True)
class Experiment:
    """A point of the paper's tables; build it with :func:`make_experiment`, which checks and completes it.

    ``recipe`` is the one that is used, which may differ from the dataset's.
    """

    task: Task
    method: Method
    recipe: Recipe
    net: Net
    seed: Annotated[
        Natural,
        Help("seed of initial weights, order and crops of images, known labels, domains of random_w, clusters"),
    ] = 0

    def __post_init__(self) -> None:
        for name, is_broken, found, expected in _rules(self):
            if is_broken:
                raise ProgramError(f"{name}: got {found!r}, expected {expected}")

    @cached_property
    def data(self) -> Dataset:
        """The task's dataset, as its images enter the net."""
        return adapted(self.task.data, self.net.network, self.net.image_size)

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self.task.data.name

    @property
    def sources(self) -> tuple[str, ...]:
        """The source domains."""
        return self.task.sources

    @property
    def targets(self) -> tuple[str, ...]:
        """The target domains."""
        return self.task.targets

    @property
    def target(self) -> str:
        """The targets' names in one, for messages and titles."""
        return "+".join(self.targets)

    @property
    def k(self) -> int:
        """The number of source domains in the normalisation; 0 without mDA."""
        return self.method.source_domains(len(self.sources))

    @property
    def k_target(self) -> int:
        """The number of target domains in the normalisation."""
        return self.method.k_target

    @property
    def num_domains(self) -> int:
        """D of the mDA layers: the source domains and the target domains."""
        return self.k + self.k_target

    @property
    def reads_domain_labels(self) -> bool:
        """Whether the training net reads domain labels of the source images."""
        return self.method.reads_domain_labels(self.task.undivided)

    @property
    def style_lmdbs(self) -> tuple[str, ...]:
        """LMDBs of the statistics of style, relative to the data folder; none if they are not read."""
        sources = self.sources if self.method.reads_style else ()
        return tuple(f"{self.data.style}/{PurePath(self.data.train_lmdb(source)).name}" for source in sources)

    @property
    def batch_inputs(self) -> tuple[str, ...]:
        """The parts that a training batch is read from, in the order of its rows: the sources, then the targets."""
        return (*self.task.source_inputs, *(self.targets if self.method.sees_target else ()))

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by name, without the dataset. Experiments are equal if these and the dataset are.

        Settings that the method does not have are absent.
        """
        method = {"method": self.method.name, **_fields(self.method)}
        found = {**_fields(self.task), **method, **_fields(self.recipe), **_fields(self.net), "seed": self.seed}
        del found["data"]
        return found

    @property
    def title(self) -> str:
        """The method and its options, for tables and pictures."""
        task, method, chosen = self.task, self.method, self.settings.items()
        texts = [
            method.title,
            f"k={self.k}" if method.is_latent else "",
            f"{self.k_target} target domains" if method.has_target_branch else "",
            f"undivided source {shares_text(task.shares)}".rstrip() if task.undivided else "",
            *(own.help.title(value) for name, value in chosen if (own := SETTINGS.get(name)) and value != own.default),
        ]
        return ", ".join(filter(None, texts))

    @property
    def name(self) -> str:
        """A folder name that contains the differences from the dataset's default experiment."""
        usual = _usual(
            self.task.data, type(self.method), self.sources, self.targets, self.net.network, self.recipe.head
        )
        usual |= {"method": None, "network": self.task.data.network, "head": self.task.data.recipe.head}
        own = self.settings
        chosen = [name for name in own if name not in ("sources", "targets", "seed") and own[name] != usual[name]]
        always = ["method", "k"] if self.method.is_latent else ["method"]
        order = [*SHORT, *(name for name in SETTINGS if name not in SHORT)]
        parts = [short(name, own[name]) for name in order if name in {*always, *chosen}]
        if (self.sources, self.targets) != (self.task.data.sources, self.task.data.targets):
            parts.append(f"{'+'.join(self.sources)}-{'+'.join(self.targets)}")
        return "_".join([*parts, f"seed{self.seed}"])

    def to_json(self) -> dict[str, Any]:
        """Return all that :func:`from_json` needs: the dataset by its name, or completely if it is not in DATASETS."""
        task = _fields(self.task)
        data = task.pop("data")
        ours = DATASETS.get(data.name)
        described = data.name if ours and data.to_json() == ours.to_json() else data.to_json()
        return {
            "schema": SCHEMA,
            "task": {"dataset": described, **task},
            "method": {"name": self.method.name, **_fields(self.method)},
            "recipe": _fields(self.recipe),
            "net": _fields(self.net),
            "seed": self.seed,
        }


def _rules(experiment: Experiment) -> Iterator[tuple[str, bool, Any, str]]:
    """Yield the rules between parts: a setting, whether the rule is broken, what was found and what is expected."""
    task, method, recipe, net = experiment.task, experiment.method, experiment.recipe, experiment.net
    network, number = NETWORKS[net.network], len(task.sources)
    data = experiment.data  # whose network and image_size are checked by this

    no_plain = isinstance(method, Plain) and method.normalisation == "none" and not network.plain
    yield "method", no_plain, method.name, f"another: {network.title} is not trained without normalisation"
    geometries = " or ".join(network.geometries)
    yield "geometry", net.geometry not in network.geometries, net.geometry, f"{geometries}: {network.name}"
    no_features = recipe.head != "paper" and network.name != ANY_FEATURES
    yield "head", no_features, recipe.head, f"'paper': {network.name} is no {NETWORKS[ANY_FEATURES].title}"
    no_digits = net.conv1_bias and not network.conv1_bias
    yield "conv1_bias", no_digits, net.conv1_bias, f"the digits net, found {network.name}"
    if isinstance(method, Aligned):
        no_early = method.branch_input == "early" and not data.early
        yield "branch_input", no_early, method.branch_input, f"'final': {data.name} has no statistics of early blocks"
    if isinstance(method, Mda):
        known, undivided = method.known_share > 0, task.undivided
        expected = f"the number of sources, {number}, with known domain labels"
        yield "k", known and method.k != number, method.k, expected
        expected = "0 for an undivided source, whose domains nobody knows"
        yield "known_share", known and undivided, method.known_share, expected
        expected = "False for an undivided source, whose domains nobody knows"
        yield "permuted_w", method.permuted_w and undivided, method.permuted_w, expected
    for name, is_used, why_not in (
        ("lambda_c", method.sees_target, f"{method.name} trains on no target images"),
        ("lambda_m", method.sees_target, f"{method.name} trains on no target images"),
        ("lambda_d", method.predicts_domains, f"{method.name} has no branch that predicts domains"),
        ("lambda_t", method.has_domain_labels, "no domain label is known (known_share, style_share, domains)"),
    ):
        found, expected = getattr(recipe, name), getattr(with_head(task.data.recipe, recipe.head), name)
        yield name, found != expected and not is_used, found, f"{expected}: {why_not}"


@dataclass(frozen=True)
class Setting:
    """A field that users choose by its name, of ``part``; ``default`` is None if it depends on the dataset."""

    part: type
    type: Any
    help: Help
    default: Any


def _settings_of(part: type) -> dict[str, Setting]:
    found = {}
    for field in fields(part):
        kind = hints(part)[field.name]
        default = (
            None
            if field.default is MISSING or (part is Recipe and getattr(kind, "__origin__", kind) is not bool)
            else field.default
        )
        for said in getattr(kind, "__metadata__", ()):
            if isinstance(said, Help):
                found[field.name] = Setting(part, kind, said, default)
    return found


_OF_METHODS = {name: setting for kind in METHODS.values() for name, setting in _settings_of(kind).items()}

SETTINGS: dict[str, Setting] = {
    **_settings_of(Task),
    "method": Setting(Method, Literal[*METHODS], Help("how domains are aligned"), "mda"),
    **{name: _OF_METHODS[name] for name in ("k", *_OF_METHODS)},
    **_settings_of(Recipe),
    **_settings_of(Net),
    **_settings_of(Experiment),
}
"""All settings by name: the options of programs and the keys of experiments/*.yaml."""


def methods_of(data: Dataset) -> tuple[str, ...]:
    """Return the methods that a dataset's network supports: some nets cannot be trained without normalisation."""
    return tuple(method for method in METHODS if method != "plain" or NETWORKS[data.network].plain)


def make_experiment(dataset: str | Dataset, method: str, **settings: Any) -> Experiment:
    """Check the settings, by the names of SETTINGS, and replace None by the paper's values.

    ``domains`` is the Path of a CSV file, which is read: its number of domains is the default of k.
    """
    data = dataset if isinstance(dataset, Dataset) else datasets.named(dataset)
    chosen = {name: value for name, value in settings.items() if value is not None}
    check_keys(chosen, SETTINGS, "settings")
    if chosen.get("shares"):
        chosen["undivided"] = True
    if isinstance(file := chosen.get("domains"), PurePath):
        named = read_domains_file(Path(file)).k
        chosen |= {"domains": domains_digest(Path(file)), "domains_named": named, "domains_file": str(file)}
        chosen.setdefault("k", named)
    experiment = _made(data, method, chosen)
    _refuse_settings_of_others(experiment, chosen)
    return experiment


def from_json(values: Any) -> Experiment:
    """Return the experiment that :meth:`Experiment.to_json` wrote."""
    values = _object(values, "experiment")
    if (found := values.get("schema")) != SCHEMA:
        raise ProgramError(f"experiment: schema: found {found!r}, expected {SCHEMA}")
    check_keys(values, ("schema", "task", "method", "recipe", "net", "seed"), "experiment")
    task, method, recipe, net = (
        _object(values.get(key), f"experiment: {key}") for key in ("task", "method", "recipe", "net")
    )
    data, name = _dataset(task.pop("dataset", None)), method.pop("name", None)
    for part, chosen in ((Task, task), (_kind(name), method), (Recipe, recipe), (Net, net)):
        check_keys(chosen, [field.name for field in fields(part)], part.__name__)
    recipe = {**_defaults(Recipe), **recipe}
    return _made(data, name, {**task, **method, **recipe, **net, "seed": values.get("seed", 0)})


def _defaults(part: type) -> dict[str, Any]:
    """Return the values of fields that were added later, for files that lack them."""
    return {field.name: field.default for field in fields(part) if field.default is not MISSING}


def differences(there: Experiment, here: Experiment) -> list[tuple[str, Any, Any]]:
    """Return the settings in which two experiments differ, with both values (None: the experiment lacks it)."""
    found, wanted = there.settings, here.settings
    names = dict.fromkeys([*wanted, *found])
    different = [(name, found.get(name), wanted.get(name)) for name in names if found.get(name) != wanted.get(name)]
    if there.data != here.data:
        other = there.dataset
        if other == here.dataset:
            compared = (field.name for field in fields(Dataset) if field.compare)
            unlike = [name for name in compared if getattr(there.data, name) != getattr(here.data, name)]
            other += f" with other {', '.join(unlike)}"
        different.insert(0, ("dataset", other, here.dataset))
    return different


def _made(data: Dataset, method: Any, chosen: Mapping[str, Any]) -> Experiment:
    """Return the experiment with the ``chosen`` fields; the rest has its defaults."""
    kind = _kind(method)
    first = {name: checked(SETTINGS[name].type, chosen[name], name) for name in _DECIDE if name in chosen}
    usual = _usual(data, kind, *map(first.get, _DECIDE))
    task, how, recipe, net = (_part(part, chosen, usual) for part in (Task, kind, Recipe, Net))
    return Experiment(task, how, recipe, net, **checked_fields(Experiment, {"seed": chosen.get("seed", 0)}))


_DECIDE = ("sources", "targets", "network", "head")
"""Settings on which other defaults depend."""

_Part = TypeVar("_Part", Task, Method, Recipe, Net)


def _part(kind: type[_Part], chosen: Mapping[str, Any], usual: Mapping[str, Any]) -> _Part:
    names = [field.name for field in fields(kind)]
    own = checked_fields(kind, {name: chosen[name] for name in names if name in chosen})
    return kind(**{**{name: usual[name] for name in names}, **own})


def _usual(
    data: Dataset,
    kind: type[Method],
    sources: tuple[str, ...] | None,
    targets: tuple[str, ...] | None,
    network: str | None,
    head: str | None,
) -> dict[str, Any]:
    """Return the default of every field of every part; if only targets are given, all other domains are sources."""
    targets = data.targets if targets is None else targets
    if sources is None:
        others = tuple(domain for domain in data.domains if domain not in targets)
        sources = data.sources if targets == data.targets else others
    network = network or data.network
    return {
        **{field.name: field.default for part in (Task, kind, Net) for field in fields(part)},
        **vars(with_head(data.recipe, head or data.recipe.head)),
        "data": data,
        "sources": sources,
        "targets": targets,
        "k": len(sources),
        "k_target": len(targets),
        "network": network,
        "image_size": adapted(data, network, None).shape[-1],
        "geometry": NETWORKS[network].geometries[0],
    }


def _refuse_settings_of_others(experiment: Experiment, chosen: Mapping[str, Any]) -> None:
    """Raise ProgramError for a setting that was chosen (not its default) and that the method lacks."""
    method, has = experiment.method, {"k": experiment.k, "k_target": experiment.k_target}
    for name in chosen:
        if name not in _OF_METHODS or name in vars(method):
            continue
        expected = has.get(name, _OF_METHODS[name].default)
        if chosen[name] != expected:
            takers = ", ".join(kind.name for kind in METHODS.values() if name in _settings_of(kind))
            raise ProgramError(
                f"{name}: got {chosen[name]!r}, expected {expected!r} for {method.name}: a setting of {takers}"
            )


def _kind(method: Any) -> type[Method]:
    if not isinstance(method, str) or method not in METHODS:
        raise ProgramError(f"method: found {method!r}, expected one of {', '.join(METHODS)}")
    return METHODS[method]


def _dataset(described: Any) -> Dataset:
    if not isinstance(described, str | dict):
        raise ProgramError(f"experiment: dataset: found {described!r}, expected a name or a description")
    return datasets.named(described) if isinstance(described, str) else datasets.from_json(described)


def _object(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ProgramError(f"{where}: found {found!r}, expected an object")
    return dict(found)


def _fields(part: Any) -> dict[str, Any]:
    """Return the fields that distinguish two experiments."""
    return {field.name: getattr(part, field.name) for field in fields(part) if field.compare}
