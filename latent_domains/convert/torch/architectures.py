"""Which net a state dict looks like, by its names, to say so where another one is expected."""

import re
from collections.abc import Mapping

from latent_domains.common.wording import some
from latent_domains.convert.torch.tensors import Tensor
from latent_domains.convert.torch.words import plain

_BOTTLENECKS = {23: "ResNet101", 36: "ResNet152"}
"""By the blocks of the third stage."""

_FAMILIES = (
    # a name that nets of the family have, as a pattern; the family
    (r"conv1\.0\.weight", "a ResNet with timm's deep stem (resnet18d and the like)"),
    (r"resnet\.embedder\.|embedder\.embedder\.", "a ResNet of the library transformers, with names of its own"),
    (r"features\.denseblock1\.|features\.dense1\.", "DenseNet"),
    (r"features\.\d+\.block\.|features\.\d+\.\d+\.block\.", "MobileNet v3 or EfficientNet"),
    (r"features\.0\.0\.weight", "MobileNet v2"),
    (r"_conv_stem\.weight", "EfficientNet (for EfficientNet-Lite0: python -m tools.convert_lite0)"),
    (r"conv_stem\.weight", "timm's MobileNet or EfficientNet"),
    (r"cls_token|class_token|patch_embed\.|encoder\.layers\.encoder_layer_0\.", "a vision transformer (ViT)"),
    (r"inception3a\.|Mixed_5b\.", "GoogLeNet or Inception"),
    (r"features\.\d+\.squeeze\.", "SqueezeNet"),
)


def described(tensors: Mapping[str, Tensor]) -> str:
    """Words for a state dict of a net that is not known here."""
    if "layer1.0.conv3.weight" in tensors:
        count = len({name.split(".")[1] for name in tensors if name.startswith("layer3.")})
        return f"it looks like {_BOTTLENECKS.get(count, 'a ResNet')}, whose blocks have three convolutions"
    for pattern, family in _FAMILIES:
        if any(re.match(pattern, name) for name in tensors):
            return f"it looks like {family}"
    if "features.0.weight" in tensors and "classifier.6.weight" in tensors:
        kernel_size = tensors["features.0.weight"].shape[-1:]
        return f"it looks like {'AlexNet' if kernel_size == (11,) else 'VGG'}"
    return f"its tensors are those of no net that is known here: {some(map(plain, sorted(tensors)), 10)}"
