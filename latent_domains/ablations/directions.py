"""Which direction of a branch's features h_D makes the domain classifier follow, and what that direction splits.

Features f (n×C) are what enters the domain classifier. h_D follows their uncentred second moment
(:mod:`latent_domains.ablations.domain_head`): if its first eigenvector is their mean, which all images share, all of
them go one way.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import caffe
import numpy as np
from numpy.typing import NDArray

from latent_domains.ablations.domain_head import Array, Head, entropy_alone, gradient
from latent_domains.common.markdown import table
from latent_domains.common.program import ProgramError
from latent_domains.data.input_batches import batches
from latent_domains.experiment.experiment import from_json
from latent_domains.models.model import feed
from latent_domains.nets.family import architecture
from latent_domains.runs.domain_usage import domain_usage
from latent_domains.runs.outputs import looked_at_lmdbs
from latent_domains.runs.run_folder import RunFolder


def directions(folder: RunFolder, images: int) -> list[dict[str, Any]]:
    """What h_D follows before training, and at the last snapshot if there is one, on so many images of each source.

    The images are held out where the dataset has such (:func:`latent_domains.runs.outputs.looked_at_lmdbs`), all are
    one batch, and BN takes its statistics, as in training. A run that began from weights that were given has no
    measurement before training.
    Raises ProgramError if no branch of the run predicts source domains.
    """
    if not folder.experiment.has_branch:
        raise ProgramError(
            f"{folder.path}: {folder.experiment.method} has no branch that predicts domains: expected mda"
        )
    training, snapshot = folder.read_training(), folder.latest_snapshot()
    weights = {0: folder.initial} if folder.initial.is_file() and not (training and training.weights) else {}
    if snapshot is not None:
        weights[snapshot.iteration] = snapshot.model
    lmdbs, held_out = looked_at_lmdbs(folder)
    form = folder.experiment.data.preprocessing
    inputs = {source: next(batches(lmdb, form, images, images))[0] for source, lmdb in lmdbs.items()}
    counts = {source: len(rows) for source, rows in inputs.items()}
    return [
        {
            "experiment": folder.experiment.to_json(),
            "iteration": iteration,
            "images": counts,
            "held_out": held_out,
            **_measured(folder, model, np.concatenate(list(inputs.values())), counts),
        }
        for iteration, model in weights.items()
    ]


def _measured(folder: RunFolder, weights: Path, inputs: NDArray[np.float32], counts: dict[str, int]) -> dict[str, Any]:
    experiment = folder.experiment
    net = folder.load_net("domains", caffe.TRAIN, weights)
    feed(net, inputs)
    net.forward()
    layers = [name for name in net.params if name.startswith("domain_")]  # the branch's, in their order
    seen = net.blobs[net.bottom_names[layers[0]][0]].data
    classifier = f"domain_{architecture(experiment).DOMAIN_CLASSIFIER.name}"
    first = "domain_centred" if experiment.branch_norm == "centred" else classifier
    features = net.blobs[net.bottom_names[first][0]].data
    head = Head.of(experiment, features, weights)
    f = head.features
    return {
        **uncentred(f),
        **centred(f, counts),
        **_named("logits", split(head.logits, counts)),
        **gradient(experiment, features, weights),
        **_named("entropy_alone", split(entropy_alone(head), counts)),
        "probe_seen": probe(seen.reshape(len(seen), -1), counts),
        "probe_features": probe(f, counts),
    }


def uncentred(f: Array) -> dict[str, float | None]:
    """The first eigenvector of the second moment of f (n×C): its share of the trace, cosine with the mean of f (None
    if the mean is 0), the share of images on its larger side; and the mean's share of the trace."""
    values, vectors = np.linalg.eigh(f.T @ f / len(f))
    m = f.mean(axis=0)
    of_mean = float(m @ m / values.sum())
    positive = float((f @ vectors[:, -1] > 0).mean())
    return {
        "first_share": float(values[-1] / values.sum()),
        "first_with_mean": float(abs(vectors[:, -1] @ m) / np.linalg.norm(m)) if of_mean > 1e-6 else None,
        "first_larger_side": max(positive, 1 - positive),
        "mean_share": of_mean,
    }


def centred(f: Array, counts: dict[str, int]) -> dict[str, float]:
    """The first principal component of f (n×C): its share of the variance, and what its sign says of the domains."""
    f = f - f.mean(axis=0)
    values, vectors = np.linalg.eigh(f.T @ f / len(f))
    along = f @ vectors[:, -1]
    return {
        "component_share": float(values[-1] / values.sum()),
        **_named("component", split(np.column_stack([along, -along]), counts)),
    }


def split(logits: Array, counts: dict[str, int]) -> dict[str, float]:
    """How the most probable of logits (n×k) divides images that come source by source (``counts`` of each)."""
    rows = np.split(logits, np.cumsum(list(counts.values()))[:-1])
    usage = domain_usage(dict(zip(counts, rows, strict=True)))
    return {"larger_side": max(usage.share), "purity": usage.purity}


def _named(prefix: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}_{name}": value for name, value in values.items()}


def probe(x: NDArray[np.floating], counts: dict[str, int]) -> float | None:
    """Accuracy of the true domain, by logistic regression of rows x (n×C), trained on one half and tested on the other.

    None if there is one source alone, or one has a single image.
    """
    from sklearn.linear_model import LogisticRegression  # a second to import
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(counts) < 2 or min(counts.values()) < 2:
        return None
    domains = np.repeat(np.arange(len(counts)), list(counts.values()))
    train, test, y_train, y_test = train_test_split(
        x.astype(np.float64), domains, test_size=0.5, stratify=domains, random_state=0
    )
    return float(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train, y_train).score(test, y_test)
    )


_TABLES = (
    {
        "E[ff^T]: first eigenvector's share": "first_share",
        "its cosine with the mean": "first_with_mean",
        "larger side": "first_larger_side",
        "Cov f: first component's share": "component_share",
        "its larger side": "component_larger_side",
        "its purity": "component_purity",
        "logits: larger side": "logits_larger_side",
        "purity": "logits_purity",
    },
    {
        "descent with P W E[ff^T]": "gradient_second_moment_near_uniform",
        "weights as they are": "gradient_second_moment_as_is",
        "descent with P W Cov f": "gradient_covariance_near_uniform",
        "classifier by h_D alone: larger side": "entropy_alone_larger_side",
        "its purity": "entropy_alone_purity",
        "probe of the branch's input": "probe_seen",
        "probe of f": "probe_features",
    },
)
"""Columns of the two tables, and the keys of :func:`directions` that they show."""


def tables(results: Sequence[dict[str, Any]]) -> str:
    """Two tables of what :func:`directions` found: means over the seeds of a run, with the least and the most."""
    rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for result in results:
        rows.setdefault((from_json(result["experiment"]).name_without_seed, result["iteration"]), []).append(result)
    found = []
    for columns in _TABLES:
        lines = [
            [name, str(iteration), str(len(runs)), *(_cell([run[key] for run in runs]) for key in columns.values())]
            for (name, iteration), runs in rows.items()
        ]
        found.append(table(["run", "iteration", "n", *columns], lines))
    return "\n\n".join(found)


def _cell(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    least, most = f"{min(known):.2f}", f"{max(known):.2f}"
    return f"{mean(known):.2f}" + (f" ({least} to {most})" if least != most else "")
