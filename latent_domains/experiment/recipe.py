"""How a network is trained: solver schedule, batches, weights of the losses."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Interval

from latent_domains.common.validation import Help, Positive, Proportion, Rate, Weight

DataOrder = Literal["stored", "shuffled"]
"""Order of the training images: as in their LMDB in every epoch, or drawn again for each epoch."""

BatchSplit = Literal["per_domain", "per_group", "equally", "by_size"]
"""How a batch is composed of the domains: see :class:`Recipe`."""

Head = Literal["paper", "linear"]
"""What is trained on stored features: see :class:`Recipe`."""

Count = Annotated[int, Interval(ge=1, le=10**8)]
"""Far beyond use, and within Caffe's 32 bits even when multiplied by the number of domains."""

LaterHalf = Annotated[float, Interval(gt=0.5, le=1)]
"""A share of the iterations. Caffe's policy "step" lowers the rate again and again, after every so many iterations. If
these are more than half of all, it lowers the rate once."""


@dataclass(frozen=True)
class Recipe:
    """Training protocol: solver schedule, batch, loss weights of Eq. 7.

    A dataset has its usual recipe, an experiment the one it is trained with. The weights λ are here, not in the methods
    that use them, since each dataset has its usual ones. ``lr_policy`` is Caffe's: "inv" is Ganin & Lempitsky's
    schedule; "step" multiplies the learning rate by 0.1 once, after the share ``lr_step`` of the iterations.

    ``batch_split`` defines what ``batch_size`` counts: the images of each domain ("per_domain"); those of all sources,
    divided equally, and again of each target ("per_group"); or those of the whole batch, divided "equally" or "by_size"
    of the domains. ``iter_size`` batches make one iteration.

    ``head`` is trained on stored features: the authors' layers on fc7 (mDA, ReLU, classifier, mDA), or mDA and a
    classifier with bias ("linear"), since the features of most backbones come after a ReLU. Test interval, snapshot
    interval and device do not change the result, so comparisons ignore them.
    """

    iterations: Annotated[Count, Help("training iterations")]
    batch_size: Annotated[Count, Help("images in a batch, counted by --batch-split")]
    batch_split: Annotated[
        BatchSplit,
        Help(
            "what --batch-size counts: the images of each domain; those of all sources together and those of each "
            "target (per_group); or the whole batch, divided equally or by the domains' sizes"
        ),
    ]
    base_lr: Annotated[Rate, Help("initial learning rate")]
    lr_policy: Literal["inv", "step"]
    weight_decay: Annotated[Weight, Help("weight of the squared weights, as in Caffe's solver")]
    lambda_c: Annotated[Weight, Help("weight of the target's class entropy")]
    lambda_d: Annotated[Weight, Help("weight of the domain entropy")]
    lambda_t: Annotated[Weight, Help("weight of the domain log-loss")]
    test_interval: Positive = field(compare=False)
    snapshot_interval: Positive = field(compare=False)
    data_order: Annotated[
        DataOrder,
        Help("order of the training images: as stored in the LMDB, or shuffled in every epoch, by --seed"),
    ] = "shuffled"
    lr_step: LaterHalf = 1.0
    iter_size: Annotated[Count, Help("batches in one iteration")] = 1
    momentum: Proportion = 0.9
    moving_average_fraction: Proportion = 0.95
    equal_classes: Annotated[
        bool,
        Help(
            "draw source images so that all classes are equally frequent in each LMDB of the sources, and in each of "
            "its domains if these are found or known before training; not in the paper",
            title=lambda _: "equal classes",
        ),
    ] = False
    head: Annotated[
        Head,
        Help(
            "layers on features: paper: the authors' on AlexNet's fc7 (mDA, ReLU, classifier, mDA); linear: mDA and a "
            "linear classifier"
        ),
    ] = "paper"
    lambda_m: Annotated[
        Weight,
        Help(
            "weight of the entropy of the target's mean class prediction, which training increases; it assumes that "
            "the target's classes are equally frequent; not in the paper",
        ),
    ] = 0.0
    test_mirror: Annotated[bool, Help("mirror test images at random, as the authors' ResNet net does")] = False
    solver_mode: Literal["CPU", "GPU"] = field(default="GPU", compare=False)
