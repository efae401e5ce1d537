"""EfficientNet-Lite0 in PyTorch, with the names of the package efficientnet-lite-pytorch, which is not installed."""

import torch
from torch import nn
from torch.nn.functional import pad

EPS = 1e-3

STAGES = ["1k3s1e1o16", "2k3s2e6o24", "2k5s2e6o40", "3k3s2e6o80", "3k5s1e6o112", "4k5s2e6o192", "1k3s1e6o320"]
"""Blocks, kernel size, stride of the first, expansion, filters of each stage."""


def same(x: torch.Tensor, convolution: nn.Conv2d) -> torch.Tensor:
    """The convolution of x padded as TensorFlow's "same" does: what is odd goes below and right."""
    (size, _), (stride, _) = convolution.kernel_size, convolution.stride
    sides = []
    for length in (x.shape[3], x.shape[2]):
        total = max((-(-length // stride) - 1) * stride + size - length, 0)
        sides += [total // 2, total - total // 2]
    return convolution(pad(x, sides))


class Block(nn.Module):
    """Widen, filter each channel, narrow."""

    def __init__(self, channels: int, expansion: int, filters: int, size: int, stride: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.adds = stride == 1 and channels == filters
        if expansion > 1:
            self._expand_conv = nn.Conv2d(channels, wide, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(wide, EPS)
        self._depthwise_conv = nn.Conv2d(wide, wide, size, stride, groups=wide, bias=False)
        self._bn1 = nn.BatchNorm2d(wide, EPS)
        self._project_conv = nn.Conv2d(wide, filters, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(filters, EPS)

    def values(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """What its convolutions end in, by the ends of Caffe's names; the last is the block's."""
        y, found = x, {}
        if hasattr(self, "_expand_conv"):
            y = found["_expand"] = self._bn0(self._expand_conv(y)).clamp(0, 6)
        y = found["_depthwise"] = self._bn1(same(y, self._depthwise_conv)).clamp(0, 6)
        y = found["_project"] = self._bn2(self._project_conv(y))
        if self.adds:
            found[""] = x + y
        return found


class Lite0(nn.Module):
    """The net, for pixels as R, G, B, (p - 127) / 128."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self._conv_stem = nn.Conv2d(3, 32, 3, 2, bias=False)
        self._bn0 = nn.BatchNorm2d(32, EPS)
        blocks, self.names, channels = [], [], 32
        for stage, text in enumerate(STAGES, 1):
            count, size, stride, expansion, filters = map(int, text.translate(str.maketrans("kseo", "    ")).split())
            for place in range(count):
                blocks.append(Block(channels, expansion, filters, size, stride if place == 0 else 1))
                self.names.append(f"block{stage}{'abcd'[place]}")
                channels = filters
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = nn.Conv2d(channels, 1280, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(1280, EPS)
        self._fc = nn.Linear(1280, classes)

    def values(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """What every convolution and every block ends in, the features and the scores, by Caffe's names."""
        x = self._bn0(same(x, self._conv_stem)).clamp(0, 6)
        found = {"conv1": x}
        for name, block in zip(self.names, self._blocks, strict=True):
            inside = block.values(x)
            found |= {name + end: value for end, value in inside.items()}
            x = list(inside.values())[-1]
        x = found["conv2"] = self._bn1(self._conv_head(x)).clamp(0, 6)
        found["pool"] = x.mean((2, 3), keepdim=True)
        found[f"fc{self._fc.out_features}"] = self._fc(found["pool"].flatten(1))
        return found
