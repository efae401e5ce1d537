"""Inputs of nets: Data layers, and a training batch of them.

A batch is groups of rows: the sources in the experiment's order, then the targets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from caffe import layers as L
from caffe import params as P
from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.networks.blocks import concat


@dataclass(frozen=True)
class Batch:
    """Tops of a training batch and its rows; ``domain_labels`` (n, -1 unknown) is None if none is known.

    With domains from a file, ``log_w`` (n×k) are the logarithms of w; where w is unknown, ``log_w`` is 0 and
    ``unknown`` (n) is 1.
    """

    data: Top
    labels: Top
    source_rows: int
    target_rows: int
    domain_labels: Top | None = None
    log_w: Top | None = None
    unknown: Top | None = None

    def split(self, top: Top) -> tuple[Top, Top]:
        """Return the source rows and the target rows of a blob of the whole batch."""
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
    """Return a Data layer; without ``label`` it has no label top, so nothing in the net can see the labels.

    Caffe crops at random in training and from the centre in tests. ``order`` comes from :func:`data_order`; ``records``
    in it is the file with the numbers of the records to read (none: all once).
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
    """Return the fields of a Data layer that set the order of a part's images. Its domain labels get the same fields.

    Each part has its own order, since MNIST-M is made from MNIST's images, one by one. No order depends on the method.
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
    """Add Data layers of the sources, with class labels, and of the targets, without (source-only: no targets).

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
        if not experiment.method.fixed_labels:  # each image meets another label in each epoch
            order = {"shuffle_seed": crc32(f"{experiment.seed} {source} ghost".encode())}
        n[name] = L.Data(source=lmdb, backend=P.Data.LMDB, batch_size=sizes[source], **order)
        domain_labels.append(n[name])
    told = {}
    if domain_labels:
        joined = concat(n, "domain_labels_nchw", domain_labels)
        told = _of_file(n, experiment, joined) if experiment.method.domains else {"domain_labels": _flat(joined)}
        for name, top in told.items():
            n[name] = top
    source_rows = sum(sizes[part] for part in experiment.task.source_inputs)
    return Batch(
        concat(n, "data", tops),
        concat(n, "label", labels),
        source_rows,
        sum(sizes[part] for part in experiment.batch_inputs) - source_rows,
        **told,
    )


def _flat(top: Top) -> Top:
    return L.Reshape(top, shape={"dim": [-1]})


def _of_file(n: NetSpec, experiment: Experiment, joined: Top) -> dict[str, Top]:
    """Return the contents of a record of w from a file; without a branch all domains are known, and w is enough."""
    k = experiment.k
    names = ("log_w_nchw", "unknown_nchw", "domain_label_nchw")
    for name, top in zip(names, L.Slice(joined, axis=1, slice_point=[k, k + 1], ntop=3), strict=True):
        n[name] = top
    log_w = {"log_w": L.Reshape(n.log_w_nchw, shape={"dim": [-1, k]})}
    if experiment.method.has_branch:
        return {"domain_labels": _flat(n.domain_label_nchw), "unknown": _flat(n.unknown_nchw), **log_w}
    n.silence_file = L.Silence(n.unknown_nchw, n.domain_label_nchw, ntop=0)
    return log_w
