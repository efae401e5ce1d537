"""The normalisation and the classifier of every branch that predicts domains, in all networks.

While w is nearly uniform, the entropy h_D makes the domain classifier follow the largest direction of the second moment
of what it reads. Without normalisation that is the mean, which all images share, so all go into one domain.
``branch_norm`` says what is centred instead: see :class:`latent_domains.experiment.methods.Aligned`.
"""

from dataclasses import dataclass, field
from typing import Any

from latent_domains.networks.blocks import GAUSSIAN, L, Normalisation, batch_norm, inner_product
from latent_domains.networks.types import Experiment, NetSpec, Top


@dataclass(frozen=True)
class DomainClassifier:
    """The last layer of a network's branches, called PREFIX_NAME."""

    name: str = "fc"
    filler: dict[str, Any] = field(default_factory=lambda: GAUSSIAN)
    lr_mult: float = 10

    def logits(self, n: NetSpec, features: Top, experiment: Experiment, k: int, prefix: str) -> Top:
        """Domain logits (N×k) of a group's features (N×C×…), as w and h_D take them."""
        moving_average_fraction = experiment.recipe.moving_average_fraction
        centred = experiment.method.branch_norm == "centred"
        if centred:
            features = batch_norm(n, f"{prefix}_centred", features, moving_average_fraction)
        x = inner_product(
            n, f"{prefix}_{self.name}", features, k, bias=not centred, filler=self.filler, lr_mult=self.lr_mult
        )
        if experiment.method.branch_norm == "logits":
            x = batch_norm(n, f"{prefix}_logits_bn", x, moving_average_fraction)
        if experiment.method.domain_gain != 1:
            n[f"{prefix}_logits_gain"] = x = L.Power(x, scale=experiment.method.domain_gain)
        return x


def normalisation(experiment: Experiment, *branch_norms: str) -> Normalisation:
    """BN and Scale after a branch's layers where ``branch_norm`` is one of these."""
    layer = "bn" if experiment.method.branch_norm in branch_norms else "none"
    return Normalisation(layer, 0, experiment.recipe.moving_average_fraction)
