"""The domain classifier of a run's branch on features that stay as they are: h_D's gradient, and h_D alone.

Near uniform w, h_D ≈ log k - 1/(2k) E|P z|² for logits z = W f (P subtracts the mean over the classes), so a step down
h_D adds a multiple of P W E[ff^T] to W: power iteration on the uncentred second moment.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import caffe
import numpy as np
from caffe import NetSpec
from caffe import layers as L
from numpy.typing import NDArray

from latent_domains.experiment.experiment import Experiment
from latent_domains.models.model import open_net
from latent_domains.nets.blocks import python_layer
from latent_domains.nets.family import architecture

STEPS, STEP = 300, 0.02
"""Of h_D alone: each step changes the domain classifier's parameters by this share of their norm."""

NEAR_UNIFORM = 0.01
"""Factor of the logits that makes w nearly uniform."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Head:
    """The domain classifier of a branch, with its own BN layers, and h_D of it: a net whose input is features."""

    net: caffe.Net
    classifier: str

    @classmethod
    def of(cls, experiment: Experiment, features: NDArray[np.float32], weights: Path) -> "Head":
        """With its parameters from a caffemodel and ``features`` (n×C×…) as its batch, whose statistics BN takes."""
        n = NetSpec()
        n.data = L.Input(shape={"dim": list(features.shape)})
        last = architecture(experiment).DOMAIN_CLASSIFIER
        logits = last.logits(n, n.data, experiment, experiment.k, "domain")
        n.entropy = python_layer("EntropyLossLayer", logits, loss_weight=1.0)
        net = open_net(n.to_proto(), caffe.TRAIN, weights)
        net.blobs["data"].data[...] = features
        net.forward()
        return cls(net, f"domain_{last.name}")

    @property
    def features(self) -> Array:
        """What enters the classifier (n×C)."""
        blob = self.net.blobs[self.net.bottom_names[self.classifier][0]].data
        return blob.reshape(len(blob), -1).astype(np.float64)

    @property
    def logits(self) -> Array:
        """As they enter w and h_D (n×k)."""
        return self.net.blobs[self.net.bottom_names["entropy"][0]].data.astype(np.float64)

    @property
    def has_bias(self) -> bool:
        return len(self.net.params[self.classifier]) == 2

    @property
    def parameters(self) -> Array:
        """k×C, and a column more for the bias if there is one."""
        return np.column_stack([blob.data for blob in self.net.params[self.classifier]]).astype(np.float64)

    def put(self, parameters: Array) -> None:
        columns = parameters.shape[1] - self.has_bias
        for blob, values in zip(
            self.net.params[self.classifier], (parameters[:, :columns], parameters[:, -1]), strict=False
        ):
            blob.data[...] = values

    def descent(self) -> Array:
        """Minus the gradient of h_D with respect to the parameters, at the present ones."""
        self.net.clear_param_diffs()
        self.net.forward()
        self.net.backward()
        return -np.column_stack([blob.diff for blob in self.net.params[self.classifier]]).astype(np.float64)


def gradient(experiment: Experiment, features: NDArray[np.float32], weights: Path) -> dict[str, float | None]:
    """Cosines of h_D's descent with P W times the second moment and with P W times the covariance of what the
    classifier multiplies (its features, and 1 for a bias); near uniform w, and the first as the weights are."""
    found: dict[str, float | None] = {}
    for where, factor in (("near_uniform", NEAR_UNIFORM), ("as_is", 1.0)):
        if experiment.branch_norm == "logits":  # BN would undo a factor of the parameters
            head = Head.of(replace(experiment, domain_gain=factor * experiment.domain_gain), features, weights)
        else:
            head = Head.of(experiment, features, weights)
            head.put(factor * head.parameters)
        f = np.column_stack([head.features, np.ones(len(features))]) if head.has_bias else head.features
        descent = _over_classes(head.descent())
        for what, x in (("second_moment", f), ("covariance", f - f.mean(axis=0))):
            found[f"gradient_{what}_{where}"] = _cosine(descent, _over_classes(head.parameters) @ (x.T @ x))
    return found


def _over_classes(parameters: Array) -> Array:
    """P: what all classes share has no effect on the softmax."""
    return parameters - parameters.mean(axis=0)


def _cosine(a: Array, b: Array) -> float | None:
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float((a * b).sum()) / norms if norms else None


def entropy_alone(head: Head) -> Array:
    """The logits (n×k) after h_D alone has trained the classifier, on features that stay as they are."""
    for _ in range(STEPS):
        descent, parameters = head.descent(), head.parameters
        if not (length := np.linalg.norm(descent)):
            break  # every row is sure
        head.put(parameters + STEP * np.linalg.norm(parameters) / length * descent)
    head.net.forward()
    return head.logits
