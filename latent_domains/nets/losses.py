"""The terms of Eq. 7, each a loss layer weighted by ``loss_weight``."""

from caffe import layers as L
from caffe import params as P
from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.networks.blocks import python_layer


def loss_weights(experiment: Experiment) -> dict[str, float]:
    """Return the weight of each loss layer, by its name."""
    recipe = experiment.recipe
    return {
        "loss_class": 1,
        "entropy_class": recipe.lambda_c,
        "mean_entropy_class": -recipe.lambda_m,
        "entropy_domain": recipe.lambda_d,
        "entropy_target_domain": recipe.lambda_d,
        "loss_domain": recipe.lambda_t,
        "domain_balance": -experiment.settings.get("lambda_b", 0),
    }


def classification(n: NetSpec, scores: Top, labels: Top) -> None:
    """Add the first term: log-loss of the labelled source images; and their accuracy, for the log."""
    n.loss_class = L.SoftmaxWithLoss(scores, labels)
    n.source_accuracy = L.Accuracy(scores, labels)


def target_entropy(n: NetSpec, experiment: Experiment, scores: Top) -> None:
    """Add the third term: λ_C h_C, the entropy of the target's class predictions.

    That of their mean is not the paper's.
    """
    weights = loss_weights(experiment)
    n.entropy_class = python_layer("EntropyLossLayer", scores, loss_weight=weights["entropy_class"])
    if experiment.recipe.lambda_m:
        n.mean_entropy_class = _of_mean(scores, weights["mean_entropy_class"])


def domain_prediction(n: NetSpec, experiment: Experiment, logits: Top, domain_labels: Top | None) -> None:
    """Add the second and fourth term: λ_t log-loss where the source domain is known, λ_D h_D where it is not."""
    bottoms = (logits,) if domain_labels is None else (logits, domain_labels)
    weights = loss_weights(experiment)
    n.entropy_domain = python_layer("EntropyLossLayer", *bottoms, loss_weight=weights["entropy_domain"])
    if domain_labels is not None:
        n.loss_domain = L.SoftmaxWithLoss(
            logits,
            domain_labels,
            loss_weight=weights["loss_domain"],
            loss_param={"ignore_label": -1, "normalization": P.Loss.VALID},
        )
    if experiment.method.lambda_b:  # not the paper's: it rewards using all k domains
        n.domain_balance = _of_mean(logits, weights["domain_balance"])


def target_domain_prediction(n: NetSpec, experiment: Experiment, logits: Top) -> None:
    """Add λ_D h_D of latent target domains (section 4.2, multi-target)."""
    weight = loss_weights(experiment)["entropy_target_domain"]
    n.entropy_target_domain = python_layer("EntropyLossLayer", logits, loss_weight=weight)


def _of_mean(logits: Top, weight: float) -> Top:
    """Return the entropy of the mean prediction."""
    return python_layer("EntropyLossLayer", logits, params={"of_mean": True}, loss_weight=weight)
