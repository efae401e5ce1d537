"""What is trained on one's own pictures, and the default options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from latent_domains.common.gpus import why_no_gpu
from latent_domains.common.program import ProgramError
from latent_domains.data.domains_file import read_domains_file
from latent_domains.experiment.datasets import DATASETS, Dataset, adapted, of_network
from latent_domains.experiment.experiment import SETTINGS
from latent_domains.experiment.methods import LATENT
from latent_domains.experiment.networks import ANY_FEATURES, BACKBONES, NETWORKS
from latent_domains.experiment.recipe import Recipe
from latent_domains.runs.devices import requested_mode

_FINE_TUNED = [name for name, network in NETWORKS.items() if network.recipe and name not in (*BACKBONES, ANY_FEATURES)]

CHOICES = (*BACKBONES, *_FINE_TUNED)
"""The networks that can be trained: on a backbone's features, or fine-tuned."""

STYLE = "style_w"
"""The method for a backbone, on its features or fine-tuned. Clusters of style are nearer to PACS's true source domains
(NMI 0.90) than what mDA's branch finds there (0.70). No accuracy on a target was used for the choice
(results/pacs_domains)."""

OF_MDA = ("branch_norm", "branch_input", "no_w_gradient", "known_share", "style_share", "permuted_w", "lambda_b")
OF_MDA += ("domain_gain", "lambda_d", "lambda_t")
"""Options that ask for mDA's branch."""

ON_FEATURES = {"branch_norm": "logits", "branch_input": "early", "no_w_gradient": True, "lambda_d": 0.1}
"""mDA's options on a backbone's features. Of its branches this one found the true source domains of PACS best
(results/archive/pacs_features). No accuracy on a target was used for the choice."""

FINE_TUNED = {"branch_norm": "logits"}
"""mDA's options for a fine-tuned net. They found the domains of mixtures of digits best (results/branch.md)."""

IMAGE_SIZE, ITERATIONS = 192, 500
"""For a backbone that is fine-tuned: two cores need a quarter of an hour."""

SHARED = ("method", "k", "k_target", "domains", "known_share", "style_share", "equal_classes", "seed")
"""Options of the method that a fine-tuned backbone shares with the features alone, which are trained first."""


@dataclass(frozen=True)
class Learner:
    """A network to be fine-tuned or, for a backbone without ``fine_tune``, a classifier on its features.

    ``image_size`` is the side of the squares that it sees (None: the network's usual one).
    """

    network: str
    fine_tune: bool = False
    image_size: int | None = None

    @property
    def on_features(self) -> bool:
        """Say whether a classifier on features is trained."""
        return self.network in BACKBONES and not self.fine_tune

    @property
    def features_alone(self) -> "Learner | None":
        """The classifier on features that is trained first, if a backbone is fine-tuned; else None."""
        return Learner(self.network) if self.network in BACKBONES and self.fine_tune else None

    @property
    def recipe(self) -> Recipe:
        """How it is trained."""
        return DATASETS[NETWORKS[ANY_FEATURES if self.on_features else self.network].recipe].recipe

    @property
    def pictures(self) -> Dataset:
        """A dataset with pictures of the size that it takes."""
        if self.on_features:
            return DATASETS[of_network(ANY_FEATURES).images]
        return adapted(of_network(self.network), self.network, self.image_size)


def choose_learner(network: str | None, fine_tune: bool, image_size: int | None, solver_mode: str | None) -> Learner:
    """Choose the learner; only a backbone can be trained without being fine-tuned.

    Raises ProgramError for an image size that a backbone's features cannot have.
    """
    network = network or default_network(solver_mode)
    if network in BACKBONES and fine_tune:
        return Learner(network, True, image_size or IMAGE_SIZE)
    if network in BACKBONES and image_size is not None:
        raise ProgramError(
            f"--image-size {image_size}: features of {network} are of {of_network(network).shape[-1]}×"
            f"{of_network(network).shape[-1]} pixels, expected --fine-tune with it, or a --network that is fine-tuned"
        )
    return Learner(network, image_size=image_size)


def default_network(solver_mode: str | None) -> str:
    """Return resnet18 with a GPU, else lite0: without one ResNet18 takes hours, features a minute."""
    return "lite0" if requested_mode(solver_mode) == "CPU" or why_no_gpu() else "resnet18"


def with_defaults(learner: Learner, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each option of the method that was not ``chosen`` (None) by the learner's default.

    Several targets are one domain by default: the model then needs no branch. With latent ones it has their branch,
    which cannot read statistics of early blocks, since no stock layer makes these.
    """
    chosen = {**chosen, "method": chosen["method"] or _usual_method(learner, chosen)}
    defaults: dict[str, Any] = {"iterations": ITERATIONS} if learner.features_alone else {}
    if chosen["method"] in (*LATENT, "multi_source"):
        defaults["k_target"] = 1
    if chosen["method"] == "mda":
        defaults |= ON_FEATURES if learner.on_features else FINE_TUNED
        if (chosen.get("k_target") or 1) > 1:
            defaults["branch_input"] = "final"
    return {name: defaults.get(name) if value is None else value for name, value in chosen.items()}


def _usual_method(learner: Learner, chosen: Mapping[str, Any]) -> str:
    """Return clusters of style for a backbone, or DIAL for a single one; mDA for others or by its options.

    A file of domains stands for itself if it knows all of them; else mDA's branch decides about the others.
    """
    asked = any(chosen.get(name) not in (None, SETTINGS[name].default) for name in OF_MDA)
    if (file := chosen.get("domains")) and not asked:
        return "multi_source" if read_domains_file(file).all_known else "mda"
    if asked or learner.network not in BACKBONES:
        return "mda"
    return "dial" if chosen.get("k") == 1 else STYLE


def for_features(learner: Learner, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for training on features alone: SHARED of those ``chosen``, else defaults."""
    return with_defaults(learner, {name: value if name in SHARED else None for name, value in chosen.items()})
