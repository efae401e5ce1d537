"""The JSON files of a run, each a type: its record, the notes of its training, and why it failed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from latent_domains.common.files import expect_file, read_json, read_text, write_text
from latent_domains.common.program import ProgramError
from latent_domains.common.validation import checked
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.methods import Method

_Fraction = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0, lt=2**53)]  # float64 has all of them
_Index = Annotated[float, Field(gt=-1.001, lt=1.001)]  # of agreement; rounding may pass 1


class _Object(BaseModel):
    """An object of a JSON file."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    def to_json(self) -> dict[str, Any]:
        """Return the object as it is written, without keys that it lacks."""
        return self.model_dump(exclude_unset=True)


COLLAPSED = 0.99
"""A branch counts as collapsed if one latent domain has at least this share of the images."""


class DomainUsage(_Object):
    """Latent domains against true source domains; ``iteration`` is that of the snapshot in a history.

    ``held_out``: whether no image is a training image. ``counts[s][d]``: images of true source s whose most probable
    latent domain is d. ``mean_probability[s][d]``: mean w of those images. ``share[d]``: share of all images in latent
    domain d. ``purity``: share of images whose true source is the most frequent one in their latent domain (1/sources
    if all are in one domain and the sources are of equal size). ``nmi``: normalised mutual information (arithmetic
    mean), 0 to 1; ``nmi_classes``: the same with the class labels, None if they were not read. ``ari``: adjusted Rand
    index, only in kept records.
    """

    iteration: int | None = None
    sources: list[str]
    images: int
    held_out: bool = False
    counts: list[list[_Count]]
    mean_probability: list[list[FiniteFloat]] | None = None
    share: list[_Fraction]
    purity: _Fraction
    nmi: _Index
    ari: _Index | None = None
    nmi_classes: _Index | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        shape = len(self.sources), len(self.share)
        if 0 in shape or not _is_matrix(self.counts, *shape) or not any(map(any, self.counts)):
            raise ValueError(f"counts {self.counts} and share {self.share} do not fit")
        if self.mean_probability is not None and not _is_matrix(self.mean_probability, *shape):
            raise ValueError(f"mean_probability: expected {shape[0]} rows of {shape[1]} numbers")
        return self

    @property
    def collapsed(self) -> bool:
        return max(self.share) >= COLLAPSED

    @property
    def has_true_domains(self) -> bool:
        """Whether purity and NMI mean anything: a single source has no known true domains, or is one itself."""
        return len(self.sources) > 1


class Session(_Object):
    """One session of a run's training. It has no end while it runs, or if it was killed.

    ``differs``: what changed since the session before, so that results differ in their last bits from an uninterrupted
    training; None if nothing did.
    """

    commit: str | None = None
    started: str
    finished: str | None = None
    seconds: float | None = None
    from_iteration: int = 0
    to_iteration: int | None = None
    ended: str | None = None
    differs: str | None = None


def _file_name(name: str) -> str:
    if name in ("", "..") or Path(name).name != name:
        raise ValueError(f"found {name!r}, expected a file's name, without its folder")
    return name


class BegunFrom(_Object):
    """The caffemodel that a training began from."""

    file: Annotated[str, AfterValidator(_file_name)]
    sha256: str | None = None


class Training(_Object):
    """How a run was trained so far, and how long it took. Only kept records have ``processes``, always 1.

    ``openblas`` is the kernel that OpenBLAS used. ``lmdbs`` has the hash of the records of each LMDB that was read, by
    its path in the data or run folder, and ``files`` those of the training net and of the weights that it begins from,
    by their names in the run folder.
    """

    seconds: float
    threads: int | None = None
    openblas: str | None = None
    solver_mode: str | None = None
    processes: int | None = None
    weights: BegunFrom | None = None
    lmdbs: dict[str, str] | None = None
    files: dict[str, str] | None = None
    sessions: list[Session] = []


class RunDescription(_Object):
    """The contents of ``experiment.json``: a run's experiment, and the folder of its images' LMDBs."""

    experiment: dict[str, Any]
    data: str


class Failure(_Object):
    """Why a run failed when it was last trained, and at which step."""

    reason: str
    step: str
    iteration: int
    time: str


class OnTarget(_Object):
    """Accuracy on one target; ``confusion`` counts its test images (classes×classes; rows true, columns predicted)."""

    accuracy: _Fraction
    test_images: int | None = None
    confusion: list[list[_Count]] | None = None

    @classmethod
    def of(cls, confusion: NDArray[np.int64]) -> Self:
        """Return the accuracy from the counts of all test images."""
        images = int(confusion.sum())
        return cls(accuracy=int(confusion.trace()) / images, test_images=images, confusion=confusion.tolist())

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.confusion is not None:
            classes = len(self.confusion)
            if not classes or not _is_matrix(self.confusion, classes, classes):
                raise ValueError("confusion: expected as many rows as columns")
            if not any(map(any, self.confusion)):
                raise ValueError("confusion: found no image, expected some")
        return self


def _of_the_same_classes(targets: dict[str, OnTarget]) -> dict[str, OnTarget]:
    sizes = {len(found.confusion) for found in targets.values() if found.confusion is not None}
    if len(sizes) > 1:
        raise ValueError(f"found confusion of {' and '.join(map(str, sorted(sizes)))} classes, expected the same")
    return targets


_Targets = Annotated[dict[str, OnTarget], AfterValidator(_of_the_same_classes)]


def _class_mean(record: "Record | Matching") -> float | None:
    """Return the mean over classes of the share of correct test images in a class; None without counts."""
    counts = [found.confusion for found in record.targets.values()]
    if not counts or None in counts:
        return None
    rows = np.sum(counts, axis=0)
    there = rows.sum(axis=1) > 0
    return float((rows.diagonal()[there] / rows.sum(axis=1)[there]).mean())


class Matching(_Object):
    """The accuracy of only one classifier: that of the latent ``domain`` nearest to the target."""

    accuracy: _Fraction
    targets: _Targets
    domain: int | None = None
    class_mean = property(_class_mean)


class Record(_Object):
    """A run's accuracy at its last iteration (of a shallow baseline: its only one), and how it was trained.

    It has either an ``experiment`` (:meth:`Experiment.to_json`) or a ``baseline`` with its options. ``accuracy`` is
    None if no target has labels. Only baselines have ``lmdbs`` (a net's are in ``training``) and the keys from
    ``seconds`` on. A baseline that discovers domains has ``matching``; its ``accuracy`` is that of the ensemble.
    """

    experiment: dict[str, Any] | None = None
    baseline: dict[str, Any] | None = None
    iteration: int | None = None
    accuracy: _Fraction | None
    test_images: int | None = None
    targets: _Targets
    classes: list[str] | None = None
    incomplete_data: str | None = None
    matching: Matching | None = None
    domain_usage: DomainUsage | None = None
    target_domain_usage: DomainUsage | None = None
    domain_usage_history: list[DomainUsage] | None = None
    last_values: dict[str, float] | None = None
    training: Training | None = None
    lmdbs: dict[str, str] | None = None
    seconds: float | None = None
    discovery_seconds: float | None = None
    memory_mib: int | None = None
    evaluated: str | None = None
    commit: str | None = None
    versions: dict[str, Any] | None = None
    hardware: dict[str, Any] | None = None
    class_mean = property(_class_mean)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.experiment is None) == (self.baseline is None):
            found = "neither" if self.experiment is None else "both"
            raise ValueError(f"experiment, baseline: found {found}, expected one: what was run")
        history = self.domain_usage_history or []
        if any(usage.iteration is None for usage in history):
            raise ValueError("domain_usage_history: iteration is None, expected a number")
        if len({len(usage.share) for usage in history}) > 1:
            raise ValueError("domain_usage_history: found several numbers of latent domains, expected one")
        return self

    def check(self, experiment: Experiment, where: str) -> None:
        """Raise ProgramError, naming ``where`` and the first key that does not fit the experiment that was run."""
        classes = experiment.data.classes
        for target, found in self.targets.items():
            if found.confusion is not None and not _is_matrix(found.confusion, classes, classes):
                raise ProgramError(f"{where}: targets: {target}: confusion: expected {classes}×{classes} numbers")
        if self.classes is not None and len(self.classes) != classes:
            raise ProgramError(f"{where}: classes: found {self.classes!r}, expected {classes} names")
        if experiment.method.is_latent and self.domain_usage is None:
            raise ProgramError(f"{where}: domain_usage: found None, expected an object, as there are latent domains")


Of = TypeVar("Of", RunDescription, Record, Training, Failure)


def read(kind: type[Of], file: Path) -> Of:
    """Return the object in a JSON file."""
    return checked(kind, read_json(file), str(file))


def _is_matrix(rows: Sequence[Sequence[float]], height: int, width: int) -> bool:
    return len(rows) == height and all(len(row) == width for row in rows)


def domain_usage(
    probabilities: Mapping[str, NDArray[np.floating]],
    labels: Mapping[str, NDArray[np.int64]] | None = None,
    *,
    held_out: bool = False,
) -> DomainUsage:
    """Summarise a branch's probabilities (n_s×k for each true source s with n_s images).

    ``labels`` are the images' classes (n_s). ``held_out`` says that no image is a training image.
    """
    from sklearn.metrics import normalized_mutual_info_score as nmi  # a second to import

    assigned = [p.argmax(axis=1) for p in probabilities.values()]
    k = next(iter(probabilities.values())).shape[1]
    counts = np.array([np.bincount(a, minlength=k) for a in assigned])
    total, found = int(counts.sum()), np.concatenate(assigned)
    true = np.repeat(np.arange(len(assigned)), counts.sum(axis=1))
    classes = None if labels is None else np.concatenate([labels[source] for source in probabilities])
    return DomainUsage(
        sources=list(probabilities),
        images=total,
        held_out=held_out,
        counts=counts.tolist(),
        mean_probability=[p.mean(axis=0, dtype=np.float64).round(6).tolist() for p in probabilities.values()],
        share=(counts.sum(axis=0) / total).tolist(),
        purity=float(counts.max(axis=0).sum() / total),
        nmi=float(nmi(true, found)),
        nmi_classes=None if classes is None else float(nmi(classes, found)),
    )


def note_on_domain_labels(method: Method, usage: DomainUsage) -> str:
    """Say how many of these images had a label that the branch saw; empty if none had, or for one source.

    It is the share of all source images. That of the counted images may differ slightly.
    """
    if usage.held_out or not usage.has_true_domains or not method.has_domain_labels:
        return ""
    if method.domains:
        return "in training the domains of a file were known"
    labels = "cluster of style" if method.reads_style else "domain"
    return f"in training the branch saw the {labels} of about {100 * method.labelled_share:g} % of these images"


FILE = "records.jsonl"


def read_records(file: Path) -> dict[str, Record]:
    """Return the records in a file by their runs' names."""
    expect_file(file, "records, a line of JSON each")
    try:
        lines = read_text(file).splitlines()
    except UnicodeDecodeError as error:
        raise ProgramError(f"{file}: {error}, expected records, a line of JSON each") from error
    records: dict[str, Record] = {}
    for number, line in enumerate(lines, 1):
        where = f"{file}: line {number}"
        try:
            entry = json.loads(line)
            name, record = entry["run"], entry["record"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ProgramError(f'{where}: found {line[:40]!r}, expected {{"run": NAME, "record": {{…}}}}') from error
        if not isinstance(name, str) or name in records:
            raise ProgramError(f"{where}: run: found {name!r}, expected a name that no other line has")
        records[name] = checked(Record, record, f"{where}: {name}")
    return records


def write_records(file: Path, records: Mapping[str, Record]) -> None:
    """Write records to a file, sorted by their runs' names."""
    lines = [json.dumps({"run": name, "record": records[name].to_json()}) for name in sorted(records)]
    write_text(file, "".join(f"{line}\n" for line in lines))
