"""Other branches on the digits: changes of the nets that no setting says."""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from google.protobuf import text_format

from latent_domains.common.markdown import table
from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import Experiment
from latent_domains.nets.blocks import STATISTIC
from latent_domains.runs.initial import draw_weights
from latent_domains.runs.record import Record
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all


def gaussian_classifier(net: NetParameter, experiment: Experiment) -> None:
    """The domain classifier as in the authors' AlexNet and ResNet nets: gaussian 0.01, learning 10 and 20 times."""
    (classifier,) = (layer for layer in net.layer if layer.name == "domain_fc4")
    classifier.inner_product_param.weight_filler.type = "gaussian"
    classifier.inner_product_param.weight_filler.std = 0.01
    for param, lr_mult in zip(classifier.param, (10, 20), strict=False):
        param.lr_mult = lr_mult


def branch_from_normalised(net: NetParameter, experiment: Experiment) -> None:
    """The branch starts from conv1 after one plain BN over all domains, as in the paper's ResNet."""
    layers = list(net.layer)
    at = next(i for i, layer in enumerate(layers) if layer.name == "conv1") + 1
    norm = LayerParameter(name="domain_bn1", type="BatchNorm", bottom=["conv1"], top=["domain_bn1"])
    norm.batch_norm_param.moving_average_fraction = experiment.data.recipe.moving_average_fraction
    for _ in range(3):
        norm.param.add(**STATISTIC)
    for layer in layers[at:]:
        if layer.name.startswith(("stem_", "domain_")) and layer.bottom[0] == "conv1":
            layer.bottom[0] = "domain_bn1"
    del net.layer[:]
    net.layer.extend([*layers[:at], norm, *layers[at:]])


VARIANTS: dict[str, Callable[[NetParameter, Experiment], None]] = {
    "as it is": lambda net, experiment: None,
    "domain classifier gaussian 0.01, lr ×10/20": gaussian_classifier,
    "branch from conv1 + BN": branch_from_normalised,
}
"""What is changed in the nets of the digits in which there is a branch."""


def ablate(variant: str, experiment: Experiment, data: Path) -> Record:
    """Train and evaluate an experiment of mDA on the digits, its nets changed by one of VARIANTS.

    Raises ProgramError if it has no such branch, or no target that has labels.
    """
    if experiment.data.network != "mnist" or not experiment.has_branch:
        raise ProgramError(
            f"{experiment.method} on {experiment.data.network}, expected mda on mnist, in whose branch the variants are"
        )
    if not experiment.tests:
        raise ProgramError(
            f"{experiment.dataset}: the images of {experiment.target} have no labels, expected a target that can be "
            "tested"
        )
    with TemporaryDirectory() as scratch:
        folder = write_run(experiment, Path(scratch) / "run", data=data)
        for name in ("train", "domains"):
            net = folder.read_net(name)
            VARIANTS[variant](net, experiment)
            folder.net(name).write_text(text_format.MessageToString(net))
        with_input = (folder.net(name).read_text() for name in ("deploy", "domains"))
        draw_weights(with_input, experiment.seed, folder.initial)
        train_all([folder], threads=1)
        return folder.read_record()


def table_of(records: Mapping[str, Record]) -> str:
    """The records of variants, a line each: how the domains were used at the end, and the accuracy."""
    rows = []
    for variant, record in records.items():
        usage = record.domain_usage
        rows.append(
            [
                variant,
                f"{100 * max(usage.share):.0f}",
                *(f"{value:.2f}" for value in (usage.purity, usage.nmi, usage.nmi_classes)),
                f"{100 * record.accuracy:.1f}",
            ]
        )
    header = ["variant", "largest share (%)", "purity", "NMI", "NMI with classes", "target accuracy (%)"]
    return table(header, rows)
