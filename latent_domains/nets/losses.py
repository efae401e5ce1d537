"""The terms of Eq. 7, each a loss layer weighted by ``loss_weight``."""

from caffe import layers as L
from caffe import params as P
from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.nets.blocks import python_layer


def loss_weights(experiment: Experiment) -> dict[str, float]:
    """The weight of each loss layer, by its name."""
    recipe = experiment.recipe
    return {
        "loss_class": 1,
        "entropy_class": recipe.lambda_c,
        "entropy_domain": recipe.lambda_d,
        "entropy_target_domain": recipe.lambda_d,
        "loss_domain": recipe.lambda_t,
        "domain_balance": -experiment.settings.get("lambda_b", 0),
    }


def classification(n: NetSpec, scores: Top, labels: Top) -> None:
    """First term: log-loss of the labelled source images; and their accuracy, for the log."""
    n.loss_class = L.SoftmaxWithLoss(scores, labels)
    n.source_accuracy = L.Accuracy(scores, labels)


def target_entropy(n: NetSpec, experiment: Experiment, scores: Top) -> None:
    """Third term: λ_C h_C, the entropy of the class predictions on the target."""
    n.entropy_class = python_layer("EntropyLossLayer", scores, loss_weight=loss_weights(experiment)["entropy_class"])


def domain_prediction(
    n: NetSpec, experiment: Experiment, logits: Top, domain_labels: Top | None, source_rows: int
) -> None:
    """Second and fourth term: λ_t log-loss where the source domain is known, λ_D h_D where it is not."""
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
    if experiment.method.lambda_b:
        balance(n, experiment, logits, source_rows)


def target_domain_prediction(n: NetSpec, experiment: Experiment, logits: Top) -> None:
    """λ_D h_D of latent target domains (section 4.2, multi-target)."""
    weight = loss_weights(experiment)["entropy_target_domain"]
    n.entropy_target_domain = python_layer("EntropyLossLayer", logits, loss_weight=weight)


def balance(n: NetSpec, experiment: Experiment, logits: Top, rows: int) -> None:
    """-λ_b times the entropy of the batch's mean assignment: rewards using all k domains.

    Not the paper's. The mean over rows is an average pooling of the n×k probabilities seen as one image, and the
    softmax of the logarithm of a distribution is that distribution, so EntropyLossLayer serves here too.
    """
    n.domain_probabilities = L.Softmax(logits)
    n.domain_probabilities_image = L.Reshape(n.domain_probabilities, shape={"dim": [1, 1, rows, experiment.k]})
    n.domain_mean = L.Pooling(n.domain_probabilities_image, pool=P.Pooling.AVE, kernel_h=rows, kernel_w=1, stride=1)
    n.domain_mean_row = L.Reshape(n.domain_mean, shape={"dim": [1, experiment.k]})
    n.domain_mean_logits = L.Log(n.domain_mean_row, shift=1e-6)
    weight = loss_weights(experiment)["domain_balance"]
    n.domain_balance = python_layer("EntropyLossLayer", n.domain_mean_logits, loss_weight=weight)
