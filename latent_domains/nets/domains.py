"""The rows w that assign a batch's images to domains.

Each group of rows, of the sources or of the targets, has its w from one DomainAssignmentLayer; Concat joins the groups.
"""

from collections.abc import Mapping

from caffe import layers as L
from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.methods import Dial, Mda
from latent_domains.nets.inputs import Batch
from latent_domains.networks.blocks import concat, python_layer


def known_group(n: NetSpec, name: str, rows: int, column: int, num_domains: int) -> Top:
    """Return w of a group whose rows all belong to one known domain: softmax over one constant logit."""
    return assignment(n, name, (constant_logits(n, name, rows, 1),), column, num_domains)


def _w_of(source: str) -> str:
    """Return the name of a known source's w. A source may have the name of one of the targets' layers."""
    return f"w_source_{source}" if source in ("target", "target_logits") else f"w_{source}"


def constant_logits(n: NetSpec, name: str, rows: int, k: int) -> Top:
    """Return logits (n×k) of a group without a branch."""
    logits = f"{name}_logits"
    n[logits] = L.DummyData(shape={"dim": [rows, k]}, data_filler={"type": "constant", "value": 0})
    return n[logits]


def assignment(n: NetSpec, name: str, bottoms: tuple[Top, ...], first: int, num_domains: int) -> Top:
    """Return w (n×D) of a group from its logits (n×k_g) and, optionally, its known domain labels (n).

    ``first`` is the group's first domain of D = ``num_domains``.
    """
    n[name] = python_layer("DomainAssignmentLayer", *bottoms, params={"num_domains": num_domains, "first": first})
    return n[name]


def _is_permuted(experiment: Experiment) -> bool:
    return isinstance(experiment.method, Mda) and experiment.method.permuted_w


def permuted(n: NetSpec, experiment: Experiment, sizes: Mapping[str, int], batch: Batch, w_source: Top) -> Top:
    """Return w of the sources, rows permuted within each class and source; gradients go back to the original rows."""
    rows = [sizes[source] for source in experiment.sources]
    n.w_places = python_layer("PermutationLayer", batch.labels, params={"rows": rows})
    n.w_permuted = L.BatchReindex(w_source, n.w_places)
    return n.w_permuted


def target_assignment(n: NetSpec, experiment: Experiment, logits: Top) -> Top:
    """Return w (n×D) of target images from the logits (n×k_target) of the targets' branch."""
    return assignment(n, "w_target", (logits,), experiment.k, experiment.num_domains)


def _logits_of_file(n: NetSpec, batch: Batch, logits: Top | None) -> Top:
    """Return logits (n×k) whose softmax is w of a file; where w is unknown, they are a branch's, if there is one.

    No gradient reaches a branch from rows that are known.
    """
    if logits is None:
        return batch.log_w
    n.w_predicted = L.Scale(logits, batch.unknown, axis=0)
    n.w_logits = L.Eltwise(n.w_predicted, batch.log_w)
    return n.w_logits


def assignment_rows(
    n: NetSpec,
    experiment: Experiment,
    sizes: Mapping[str, int],
    batch: Batch,
    source_logits: Top | None,
    target_logits: Top | None,
) -> Top:
    """Return w (N×D) of a whole training batch: predicted, known or constant sources, then targets.

    Domain labels replace predictions; a control's images all have one.
    """
    num_domains = experiment.num_domains
    if isinstance(experiment.method, Dial):
        groups = [known_group(n, "w_source", batch.source_rows, 0, num_domains)]
    elif source_logits is None and batch.domain_labels is None and batch.log_w is None:
        groups = [
            known_group(n, _w_of(source), sizes[source], column, num_domains)
            for column, source in enumerate(experiment.sources)
        ]
    else:
        if batch.log_w is not None:
            bottoms = (_logits_of_file(n, batch, source_logits),)
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
