"""Inputs of a training net and the rows w that assign its images to domains.

A batch is groups of rows: the sources in the experiment's order, then the targets. Each group's w comes from one
DomainAssignmentLayer; Concat joins the groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from caffe import layers as L
from caffe import params as P
from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.methods import Dial, Mda
from latent_domains.nets.blocks import python_layer


@dataclass(frozen=True)
class Batch:
    """Tops of a training batch and its rows; ``domain_labels`` (n, -1 unknown) is None when none is known."""

    data: Top
    labels: Top
    domain_labels: Top | None
    source_rows: int
    target_rows: int

    def split(self, top: Top) -> tuple[Top, Top]:
        """The source rows and the target rows of a blob of the whole batch."""
        return L.Slice(top, axis=0, slice_point=self.source_rows, ntop=2)


def images(
    n: NetSpec,
    name: str,
    experiment: Experiment,
    lmdb: str,
    batch_size: int,
    label: str | None,
    *,
    mirror: bool,
    **order: int | str,
) -> Top:
    """A Data layer; without ``label`` it has no label top, so nothing in the net can see the labels.

    Caffe crops at random in training and from the centre in tests. ``order`` is what :func:`data_order` gives, and
    ``records``, the file with the numbers of the records that are read (none: all once).
    """
    data = experiment.data
    transform: dict[str, object] = {}
    if data.scale != 1:
        transform["scale"] = data.scale
    if mirror:
        transform["mirror"] = True
    if data.crop is not None:
        transform["crop_size"] = data.crop
    if data.mean:
        transform["mean_value"] = list(data.mean)
    layer = L.Data(
        source=lmdb,
        backend=P.Data.LMDB,
        batch_size=batch_size,
        ntop=1 if label is None else 2,
        **order,
        **({"transform_param": transform} if transform else {}),
    )
    if label is None:
        n[name] = layer
    else:
        n[name], n[label] = layer
    return n[name]


def data_order(experiment: Experiment, part: str) -> dict[str, int]:
    """Fields of a Data layer that set the order of a part's images. Its domain labels get the same ones.

    Each part has an order of its own: MNIST-M is made of MNIST's images, one by one. None depends on the method.
    """
    if experiment.recipe.data_order == "stored":
        return {}
    return {"shuffle_seed": crc32(f"{experiment.seed} {part}".encode())}


def _records(record_files: Mapping[str, str], part: str) -> dict[str, str]:
    return {"records": record_files[part]} if part in record_files else {}


def training_batch(
    n: NetSpec,
    experiment: Experiment,
    sizes: Mapping[str, int],
    data_folder: str,
    domain_label_lmdbs: Mapping[str, str],
    record_files: Mapping[str, str],
) -> Batch:
    """Data layers of the sources (with class labels) and, unless the method is source-only, of the targets (without).

    ``sizes`` are the rows of each of the experiment's parts.
    """
    data = experiment.data
    tops, labels = [], []
    for part in experiment.batch_inputs:
        label = f"label_{part}" if part in experiment.task.source_inputs else None
        lmdb = f"{data_folder}/{experiment.data.train_lmdb(part)}"
        order = data_order(experiment, part) | _records(record_files, part)
        tops.append(images(n, f"data_{part}", experiment, lmdb, sizes[part], label, mirror=data.mirror, **order))
        if label is not None:
            labels.append(n[label])
    domain_labels = []
    for source, lmdb in domain_label_lmdbs.items():
        name = f"domain_label_{source}"
        order = data_order(experiment, source) | _records(record_files, source)
        if not experiment.method.in_step:  # each image meets another label in each epoch
            order = {"shuffle_seed": crc32(f"{experiment.seed} {source} ghost".encode())}
        n[name] = L.Data(source=lmdb, backend=P.Data.LMDB, batch_size=sizes[source], **order)
        domain_labels.append(n[name])
    all_domain_labels = None
    if domain_labels:
        joined = concat(n, "domain_labels_nchw", domain_labels)
        n.domain_labels = L.Reshape(joined, shape={"dim": [-1]})
        all_domain_labels = n.domain_labels
    source_rows = sum(sizes[part] for part in experiment.task.source_inputs)
    return Batch(
        concat(n, "data", tops),
        concat(n, "label", labels),
        all_domain_labels,
        source_rows,
        sum(sizes[part] for part in experiment.batch_inputs) - source_rows,
    )


def concat(n: NetSpec, name: str, tops: list[Top]) -> Top:
    """Join tops along the batch axis; a single one is passed on as it is."""
    if len(tops) == 1:
        return tops[0]
    n[name] = L.Concat(*tops, axis=0)
    return n[name]


def known_group(n: NetSpec, name: str, rows: int, column: int, num_domains: int) -> Top:
    """w of a group whose rows all belong to one known domain: softmax over one constant logit."""
    return assignment(n, name, (constant_logits(n, name, rows, 1),), column, num_domains)


def _w_of(source: str) -> str:
    """The name of a known source's w. A source may be called as one of the targets' layers are."""
    return f"w_source_{source}" if source in ("target", "target_logits") else f"w_{source}"


def constant_logits(n: NetSpec, name: str, rows: int, k: int) -> Top:
    """Logits (n×k) of a group that no branch predicts."""
    logits = f"{name}_logits"
    n[logits] = L.DummyData(shape={"dim": [rows, k]}, data_filler={"type": "constant", "value": 0})
    return n[logits]


def assignment(n: NetSpec, name: str, bottoms: tuple[Top, ...], first: int, num_domains: int) -> Top:
    """w (n×D) of a group from its logits (n×k_g) and, optionally, its known domain labels (n)."""
    n[name] = python_layer("DomainAssignmentLayer", *bottoms, params={"num_domains": num_domains, "first": first})
    return n[name]


def _is_permuted(experiment: Experiment) -> bool:
    return isinstance(experiment.method, Mda) and experiment.method.permuted_w


def permuted(n: NetSpec, experiment: Experiment, sizes: Mapping[str, int], batch: Batch, w_source: Top) -> Top:
    """w of the sources with rows in each other's places, among those of one class and one source; gradients follow."""
    rows = [sizes[source] for source in experiment.sources]
    n.w_places = python_layer("PermutationLayer", batch.labels, params={"rows": rows})
    n.w_permuted = L.BatchReindex(w_source, n.w_places)
    return n.w_permuted


def target_assignment(n: NetSpec, experiment: Experiment, logits: Top) -> Top:
    """w (n×D) of target images from the logits (n×k_target) of the targets' branch."""
    return assignment(n, "w_target", (logits,), experiment.k, experiment.num_domains)


def assignment_rows(
    n: NetSpec,
    experiment: Experiment,
    sizes: Mapping[str, int],
    batch: Batch,
    source_logits: Top | None,
    target_logits: Top | None,
) -> Top:
    """w (N×D) of a whole training batch: predicted, known or constant sources, then targets.

    Domain labels take the place of what is predicted; a control's images all have one.
    """
    num_domains = experiment.num_domains
    if isinstance(experiment.method, Dial):
        groups = [known_group(n, "w_source", batch.source_rows, 0, num_domains)]
    elif source_logits is None and batch.domain_labels is None:
        groups = [
            known_group(n, _w_of(source), sizes[source], column, num_domains)
            for column, source in enumerate(experiment.sources)
        ]
    else:
        if source_logits is None:
            source_logits = constant_logits(n, "w_source", batch.source_rows, experiment.k)
        bottoms = (source_logits,) if batch.domain_labels is None else (source_logits, batch.domain_labels)
        w_source = assignment(n, "w_source", bottoms, 0, num_domains)
        groups = [permuted(n, experiment, sizes, batch, w_source) if _is_permuted(experiment) else w_source]
    if target_logits is not None:
        groups.append(target_assignment(n, experiment, target_logits))
    else:
        groups.append(known_group(n, "w_target", batch.target_rows, experiment.k, num_domains))
    return concat(n, "w", groups)
