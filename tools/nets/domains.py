"""Inputs of a training net and the rows w that assign its images to domains.

A batch is groups of rows: the sources in the experiment's order, then the target. Each group's w comes from one
DomainAssignmentLayer; Concat joins the groups.
"""

from dataclasses import dataclass

from caffe import layers as L
from caffe import params as P
from caffe.net_spec import NetSpec, Top

from tools.experiment import Experiment
from tools.nets.blocks import python_layer


@dataclass(frozen=True)
class Batch:
    """Tops of a training batch; ``domain_labels`` (n, -1 unknown) is None when no domain label is known."""

    data: Top
    labels: Top
    domain_labels: Top | None


def images(n: NetSpec, name: str, experiment: Experiment, lmdb: str, batch_size: int, label: str | None) -> Top:
    """A Data layer; without ``label`` it has no label top, so nothing in the net can see the labels."""
    data = experiment.data
    layer = L.Data(
        source=lmdb,
        backend=P.Data.LMDB,
        batch_size=batch_size,
        transform_param={"mean_value": data.mean, "scale": data.scale},
        ntop=1 if label is None else 2,
    )
    if label is None:
        n[name] = layer
    else:
        n[name], n[label] = layer
    return n[name]


def training_batch(
    n: NetSpec, experiment: Experiment, data_folder: str, domain_label_lmdbs: dict[str, str]
) -> Batch:
    """Data layers of the sources (with class labels) and, unless source_only, of the target (without)."""
    data, size = experiment.data, experiment.batch_size
    tops, labels = [], []
    for source in experiment.sources:
        label = f"label_{source}"
        lmdb = f"{data_folder}/{data.train_lmdb(source)}"
        tops.append(images(n, f"data_{source}", experiment, lmdb, size, label))
        labels.append(n[label])
    if experiment.method != "source_only":
        lmdb = f"{data_folder}/{data.train_lmdb(experiment.target)}"
        tops.append(images(n, f"data_{experiment.target}", experiment, lmdb, size, None))
    domain_labels = []
    for source, lmdb in domain_label_lmdbs.items():
        name = f"domain_label_{source}"
        n[name] = L.Data(source=lmdb, backend=P.Data.LMDB, batch_size=size)
        domain_labels.append(n[name])
    all_domain_labels = None
    if domain_labels:
        joined = concat(n, "domain_labels_nchw", domain_labels)
        n.domain_labels = L.Reshape(joined, shape={"dim": [-1]})
        all_domain_labels = n.domain_labels
    return Batch(concat(n, "data", tops), concat(n, "label", labels), all_domain_labels)


def concat(n: NetSpec, name: str, tops: list[Top]) -> Top:
    """Join tops along the batch axis; a single one is passed on as it is."""
    if len(tops) == 1:
        return tops[0]
    n[name] = L.Concat(*tops, axis=0)
    return n[name]


def known_group(n: NetSpec, name: str, rows: int, column: int, num_domains: int) -> Top:
    """w of a group whose rows all belong to one known domain: softmax over one constant logit."""
    logits = f"{name}_logits"
    n[logits] = L.DummyData(shape={"dim": [rows, 1]}, data_filler={"type": "constant", "value": 0})
    return assignment(n, name, (n[logits],), column, num_domains)


def assignment(n: NetSpec, name: str, bottoms: tuple[Top, ...], first: int, num_domains: int) -> Top:
    """w (n×D) of a group from its logits (n×k_g) and, optionally, its known domain labels (n)."""
    n[name] = python_layer("DomainAssignmentLayer", *bottoms, params={"num_domains": num_domains, "first": first})
    return n[name]


def assignment_rows(n: NetSpec, experiment: Experiment, logits: Top | None, domain_labels: Top | None) -> Top:
    """w (N×D) of a whole training batch: predicted, known or constant sources, then the target."""
    size, num_domains = experiment.batch_size, experiment.num_domains
    if experiment.method == "dial":
        groups = [known_group(n, "w_source", size * len(experiment.sources), 0, num_domains)]
    elif experiment.method == "multi_source":
        groups = [
            known_group(n, f"w_{source}", size, column, num_domains)
            for column, source in enumerate(experiment.sources)
        ]
    else:
        bottoms = (logits,) if domain_labels is None else (logits, domain_labels)
        groups = [assignment(n, "w_source", bottoms, 0, num_domains)]
    groups.append(known_group(n, f"w_{experiment.target}", size, experiment.k, num_domains))
    return concat(n, "w", groups)
