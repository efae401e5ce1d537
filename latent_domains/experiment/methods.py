"""The methods of the paper's tables, then our controls: each is a class with its own settings.

A new method is a class and its entry in METHODS. Other modules read the attributes of :class:`Method`.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Interval

from latent_domains.common.program import ProgramError
from latent_domains.common.validation import Help, Proportion, Rate, Weight

Way = tuple[str, dict[str, Any]]
"""A way to give each source image a domain (:mod:`latent_domains.domains.assign`): its name, and its options."""

BRANCH_NORMS = {
    "none": "no normalisation in the branch",
    "layers": "",
    "centred": "centred branch features",
    "logits": "centred logits",
}
"""What BN normalises in a branch that predicts domains (:class:`Aligned`), and the words in titles."""

BRANCH_INPUTS = {"final": "", "early": "branch on early statistics"}
"""The input of a branch if the records are features of a backbone, and the words in titles."""

_MOST_DOMAINS = 256
"""More domains than images in a batch are useless, and need memory."""

_Domains = Annotated[int, Interval(ge=1, le=_MOST_DOMAINS)]


@dataclass(frozen=True, kw_only=True)
class Method:
    """How domains are aligned.

    ``title`` is its name in tables and pictures, ``colour`` the colour of its lines. ``normalisation`` follows the
    layers: none, plain "bn", or "mda" with ``source_domains`` and ``k_target`` domains. ``has_branch``: whether a side
    branch predicts the domains of source images; ``is_latent``: whether their number is a choice; ``reads_style``:
    whether they are found by the pictures' style; ``fixed_labels``: whether an image has the same domain label in each
    epoch; ``domains``: the file with the domains (:class:`DomainsFromFile`).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    colour: ClassVar[str]
    normalisation: ClassVar[Literal["none", "bn", "mda"]] = "mda"
    sees_target: ClassVar[bool] = True
    has_branch: ClassVar[bool] = False
    is_latent: ClassVar[bool] = False
    reads_style: ClassVar[bool] = False
    fixed_labels: ClassVar[bool] = True
    domains = ""

    def source_domains(self, sources: int) -> int:
        """Return the number of source domains in the normalisation, for this number of sources."""
        raise NotImplementedError

    @property
    def has_target_branch(self) -> bool:
        """Whether a side branch predicts target domains."""
        return self.k_target > 1

    @property
    def predicts_domains(self) -> bool:
        """Whether any side branch predicts domains."""
        return self.has_branch or self.has_target_branch

    @property
    def finds_domains(self) -> bool:
        """Whether it finds latent source domains, by a branch, or before training by style or from a file."""
        return self.has_branch or self.reads_style or bool(self.domains)

    @property
    def labelled_share(self) -> float:
        """The share of source images whose domain, or style cluster, the branch sees."""
        return 0.0

    @property
    def has_domain_labels(self) -> bool:
        """Whether the branch sees any."""
        return self.labelled_share > 0 or bool(self.domains)

    def reads_domain_labels(self, undivided: bool) -> bool:
        """Say whether the training net reads domain labels of the source images."""
        return self.has_domain_labels

    @property
    def way(self) -> Way:
        """Where those labels come from, if they are read."""
        raise NotImplementedError

    @property
    def divides(self) -> Way | None:
        """The source of the domains in which ``equal_classes`` balances classes; None: the parts of the sources."""
        return None


@dataclass(frozen=True, kw_only=True)
class Plain(Method):
    name, title, colour = "plain", "source only, no normalisation", "#2c8fc7"
    normalisation = "none"
    sees_target = False
    k_target: ClassVar[int] = 0

    def source_domains(self, sources: int) -> int:
        return 0


@dataclass(frozen=True, kw_only=True)
class SourceOnly(Plain):
    name, title, colour = "source_only", "source only", "#6e747b"
    normalisation = "bn"


@dataclass(frozen=True, kw_only=True)
class Dial(Method):
    """All sources are one domain, all targets another."""

    name, title, colour = "dial", "DIAL", "#0072b2"
    k_target: ClassVar[int] = 1

    def source_domains(self, sources: int) -> int:
        return 1


@dataclass(frozen=True, kw_only=True)
class Aligned(Method):
    """Methods that distinguish source domains, and target domains if there are several.

    Several targets are latent: their own branch predicts them, in tests too. ``branch_norm`` "layers" is our reading of
    the paper: BN after each layer of the branch that has parameters, except the last. It uses the branch's own images;
    in ResNets it uses the whole batch.
    """

    k_target: Annotated[
        _Domains, Help("target domains, latent if more than 1 (default: the number of targets; dial has 1)")
    ]
    branch_norm: Annotated[
        Literal[*BRANCH_NORMS],
        Help(
            "what BN normalises in the branch that predicts domains: none: nothing; layers: the outputs of its layers, "
            "as in the paper; centred: the input of the domain classifier (may divide latent targets by class); "
            "logits: its logits. centred and logits have no affine part and are not in the paper",
            title=BRANCH_NORMS.__getitem__,
        ),
    ] = "layers"
    branch_input: Annotated[
        Literal[*BRANCH_INPUTS],
        Help(
            "input of the branch on a dataset of features: final: the final features; early: the statistics of early "
            "blocks in the dataset, not in the paper",
            title=BRANCH_INPUTS.__getitem__,
        ),
    ] = "final"
    domain_gain: Annotated[
        Rate,
        Help(
            "factor of the normalised logits of --branch-norm logits",
            title=lambda gain: f"gain {gain:g}",
        ),
    ] = 1.0
    no_w_gradient: Annotated[
        bool,
        Help(
            "do not train the branch that predicts domains with the class losses",
            title=lambda _: "no gradient through w",
        ),
    ] = False

    def __post_init__(self) -> None:
        for name in ("branch_norm", "branch_input", "domain_gain", "no_w_gradient"):
            value, usual = getattr(self, name), getattr(Aligned, name)
            if value != usual and not self.predicts_domains:
                raise ProgramError(
                    f"{name}: got {value!r}, expected {usual!r}: {self.name} has no branch that predicts domains"
                )
        if self.domain_gain != 1 and self.branch_norm != "logits":
            raise ProgramError(
                f"domain_gain: got {self.domain_gain:g}, expected 1: it is a factor of normalised logits "
                "(branch_norm logits)"
            )


@dataclass(frozen=True, kw_only=True)
class DomainsFromFile(Aligned):
    """Methods that read domains from a CSV file (:mod:`latent_domains.data.domains_file`).

    ``domains`` is the hash of its contents, ``domains_named`` the number of domains in it. ``domains_file`` is its
    path, which no experiment stores.
    """

    domains: Annotated[
        str,
        Help(
            "CSV file with the domain of each source image, or a probability for each domain: domains.csv of "
            "tools.discover or of a run, or your own. multi_source needs the domains of all images; with mda, the "
            "branch predicts missing ones",
            "FILE",
            title=lambda digest: f"domains of file {digest}",
        ),
    ] = ""
    domains_named: int = 0
    domains_file: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.domains_named > _MOST_DOMAINS:
            raise ProgramError(f"domains: {self.domains_named} in the file, expected at most {_MOST_DOMAINS}")


@dataclass(frozen=True, kw_only=True)
class Latent(Aligned):
    """Methods whose source domains are k latent ones."""

    is_latent = True

    k: Annotated[
        _Domains,
        Help("latent source domains of mda and its controls (default: the number of sources)"),
    ]

    def source_domains(self, sources: int) -> int:
        return self.k


@dataclass(frozen=True, kw_only=True)
class Mda(DomainsFromFile, Latent):
    """The paper's: a branch predicts to which of k latent domains each source image belongs."""

    name, title, colour = "mda", "mDA", "#cf5b00"
    has_branch = True

    known_share: Annotated[
        Proportion,
        Help(
            "share of source images whose domain label is known, 0 to 1",
            "SHARE",
            title=lambda share: f"{100 * share:g} % of domain labels known",
        ),
    ] = 0.0
    style_share: Annotated[
        Proportion,
        Help(
            "share of each style cluster, 0 to 1: its most certain images get the cluster as known domain; not in the "
            "paper",
            "SHARE",
            title=lambda share: f"{100 * share:g} % of clusters of style known",
        ),
    ] = 0.0
    permuted_w: Annotated[
        bool,
        Help(
            "a control: permute the rows of w in each batch, within each class and true domain",
            title=lambda _: "w permuted",
        ),
    ] = False
    lambda_b: Annotated[
        Weight,
        Help(
            "weight of the balance term, which rewards using all k domains; not in the paper",
            title=lambda weight: f"balance λ_b={weight:g}",
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.known_share and self.style_share:
            raise ProgramError(
                f"style_share: got {self.style_share!r}, expected 0 with known_share: one of them says which domains "
                "are known"
            )
        if self.domains and self.labelled_share:
            raise ProgramError(
                "domains: got a file, expected none with known_share or style_share: one of them says which domains "
                "are known"
            )
        if self.k < self.domains_named:
            raise ProgramError(f"k: got {self.k}, expected at least {self.domains_named}, the domains of the file")
        for name in ("style_share", "lambda_b"):
            if getattr(self, name) and self.k < 2:
                raise ProgramError(f"{name}: got {getattr(self, name)!r}, expected 0 with a single latent domain")

    @property
    def labelled_share(self) -> float:
        return self.known_share or self.style_share

    @property
    def reads_style(self) -> bool:
        return self.style_share > 0

    @property
    def way(self) -> Way:
        if self.domains:
            return "from_file", {}
        return ("style", {"share": self.style_share}) if self.reads_style else ("known", {"share": self.known_share})

    @property
    def divides(self) -> Way | None:
        if self.domains:
            return self.way
        return ("style", {}) if self.reads_style else None


@dataclass(frozen=True, kw_only=True)
class MultiSource(DomainsFromFile):
    """Every source is a known domain; or every domain of a file."""

    name, title, colour = "multi_source", "multi-source", "#008f68"

    def source_domains(self, sources: int) -> int:
        return self.domains_named or sources

    def reads_domain_labels(self, undivided: bool) -> bool:
        return undivided or bool(self.domains)

    @property
    def way(self) -> Way:
        return ("from_file" if self.domains else "known"), {}

    @property
    def divides(self) -> Way | None:
        return self.way


@dataclass(frozen=True, kw_only=True)
class Control(Latent):
    """A method without a branch that gives each source image one of k domains before training.

    It shows whether mDA does more than any division into k. With one domain it would be DIAL.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 2:
            raise ProgramError(
                f"k: got {self.k}, expected at least 2 latent domains for {self.name}: with one it is dial"
            )

    def reads_domain_labels(self, undivided: bool) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class RandomW(Control):
    """Equal numbers of images in each domain, drawn at random."""

    name, title, colour = "random_w", "random balanced w", "#7d7420"

    @property
    def way(self) -> Way:
        return "at_random", {}


@dataclass(frozen=True, kw_only=True)
class KMeansW(Control):
    """Clusters of each channel's mean and deviation."""

    name, title, colour = "kmeans_w", "k-means w", "#8a5a9e"

    @property
    def way(self) -> Way:
        return "pixels", {}

    @property
    def divides(self) -> Way | None:
        return self.way


@dataclass(frozen=True, kw_only=True)
class StyleW(Control):
    """Clusters of the pictures' style, after the effect of the class is removed."""

    name, title, colour = "style_w", "clusters of style as w", "#b8475a"
    reads_style = True

    counted: bool = False
    """Whether k was counted, as tools.discover does; not a setting, since it follows from k."""

    @property
    def way(self) -> Way:
        return "style", {"counted": True} if self.counted else {}

    @property
    def divides(self) -> Way | None:
        return self.way


@dataclass(frozen=True, kw_only=True)
class GhostW(RandomW):
    """Equal numbers in each domain, drawn again for each batch."""

    name, title, colour = "ghost_w", "ghost parts", "#4d6b8a"
    fixed_labels = False


METHODS: dict[str, type[Method]] = {
    kind.name: kind for kind in (Plain, SourceOnly, Dial, Mda, MultiSource, RandomW, KMeansW, StyleW, GhostW)
}
"""By name, in the order of tables and pictures."""

CONTROLS = tuple(name for name, kind in METHODS.items() if issubclass(kind, Control))
"""The names of the controls."""

LATENT = tuple(name for name, kind in METHODS.items() if kind.is_latent)
"""The names of the methods for which k is a choice."""
