"""MobileNetV2 (Sandler et al., CVPR 2018; width 1.0), with mDA in place of every BN but conv1's, as in ResNets.

Layers and names are torchvision's: every convolution pads by half of its kernel, and BN follows each.
"""

from latent_domains.networks.inverted_residuals import HEAD, POOLED, Block, InvertedResiduals, Pads
from latent_domains.networks.network import EPS, Network, TorchLayout, torchvision
from latent_domains.networks.resnet import branch

_STAGES = (
    # blocks, kernel size, stride of the first block, how many times wider inside, filters
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (3, 3, 2, 6, 32),
    (4, 3, 2, 6, 64),
    (3, 3, 1, 6, 96),
    (3, 3, 2, 6, 160),
    (1, 3, 1, 6, 320),
)


def _half(kernel_size: int, stride: int) -> Pads:
    return (kernel_size // 2,) * 2


def _torch_names(part: str, block: Block | None) -> tuple[str, str]:
    """Return PyTorch's names.

    Blocks are features.1 to features.17; in them each convolution has its own module with BN.
    """
    if block is None:
        module = "features.0" if part == "stem" else "features.18"
        return f"{module}.0", f"{module}.1"
    parts = ("expand", "depthwise", "project")[not block.expands :]
    module, number = f"features.{block.place + 1}.conv", parts.index(part)
    if part == "project":
        return f"{module}.{number}", f"{module}.{number + 1}"
    return f"{module}.{number}.0", f"{module}.{number}.1"


LAYERS = InvertedResiduals(_STAGES, EPS, _half, _torch_names)

MOBILENET_V2 = Network(
    "mobilenet_v2",
    "MobileNetV2",
    LAYERS.stem,
    branch,
    LAYERS.features,
    branch_sees_all=True,
    images="pacs",
    any_size=True,
    recipe="pacs",
    megabytes=11000,
    plain=False,
    weights=(
        torchvision("mobilenet_v2", "MobileNetV2", "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889"),
    ),
    torch=TorchLayout(
        "features.1.conv.0.0.weight", tuple(LAYERS.units()), "classifier.1", HEAD, LAYERS.reference, POOLED
    ),
)
