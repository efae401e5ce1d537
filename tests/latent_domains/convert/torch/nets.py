"""ResNets in PyTorch, with the names and the geometry of torchvision's, which is not installed here."""

import io

import torch
from torch import nn

RESNET18, RESNET34 = (2, 2, 2, 2), (3, 4, 6, 3)
RESNET50 = RESNET34
"""Of bottlenecks."""


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, entering: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(entering, filters, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)
        self.downsample = None
        if stride != 1 or entering != filters:
            self.downsample = nn.Sequential(
                nn.Conv2d(entering, filters, 1, stride, bias=False), nn.BatchNorm2d(filters)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """Convolutions of 1×1, 3×3, which has the stride, and 1×1 with four times the filters; and a shortcut."""

    expansion = 4

    def __init__(self, entering: int, filters: int, stride: int) -> None:
        super().__init__()
        leaving = self.expansion * filters
        self.conv1 = nn.Conv2d(entering, filters, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)
        self.conv3 = nn.Conv2d(filters, leaving, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(leaving)
        self.relu = nn.ReLU()
        self.downsample = None
        if stride != 1 or entering != leaving:
            self.downsample = nn.Sequential(
                nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """``blocks`` are those of each of the four stages, of a ``kind``; ``width`` the filters of the first."""

    def __init__(
        self, blocks: tuple[int, ...], classes: int, width: int = 64, kind: type[Block] | type[Bottleneck] = Block
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        entering = width
        for stage, count in enumerate(blocks, 1):
            filters, made = width << (stage - 1), []
            for place in range(count):
                made.append(kind(entering, filters, 2 if stage > 1 and place == 0 else 1))
                entering = kind.expansion * filters
            setattr(self, f"layer{stage}", nn.Sequential(*made))
        self.fc = nn.Linear(entering, classes)

    def values(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """The stem's output, every block's, the features and the logits, by Caffe's names for them."""
        found = {"scale_conv1": self.relu(self.bn1(self.conv1(x)))}
        x = self.maxpool(found["scale_conv1"])
        for stage in range(1, 5):
            for place, block in enumerate(getattr(self, f"layer{stage}")):
                x = found[f"res{stage + 1}{'abcdef'[place]}"] = block(x)
        found["pool5"] = x.mean((2, 3), keepdim=True)
        found[f"fc{self.fc.out_features}"] = self.fc(found["pool5"].flatten(1))
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.values(x)[f"fc{self.fc.out_features}"]


def trained(
    blocks: tuple[int, ...],
    classes: int,
    seed: int = 0,
    width: int = 64,
    kind: type[Block] | type[Bottleneck] = Block,
) -> ResNet:
    """A net as if it was trained: no statistic, no scale and no shift is what it is initialised to.

    The statistics are near those of its activations, or these would vanish or explode.
    """
    torch.manual_seed(seed)
    net = ResNet(blocks, classes, width, kind)
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    with torch.no_grad():
        for norm in norms:
            norm.weight.normal_(1, 0.3)
            norm.bias.normal_(0, 0.3)
            norm.momentum = 1.0  # the statistics become those of one batch
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
        net.train()(torch.randn(4, 3, 64, 64))
        for norm in norms:
            norm.running_mean += 0.3 * norm.running_var.sqrt() * torch.randn_like(norm.running_mean)
            norm.running_var *= torch.empty_like(norm.running_var).uniform_(0.5, 2)
            norm.momentum = 0.1
        net.fc.bias.normal_(0, 0.5)
    return net.eval()


def tell_apart(net: ResNet, images: torch.Tensor) -> None:
    """Give a net a classifier that finds a class of its own, at random, for each of the ``images`` (N×3×H×W).

    To a random one every image looks the same: the features have more in common than what sets them apart.
    """
    with torch.no_grad():
        features = net.values(images)["pool5"].flatten(1)
        mean = features.mean(0)
        scores = torch.randn(net.fc.out_features, len(images))  # what each image is to have
        net.fc.weight.copy_(scores @ torch.linalg.pinv(features - mean, rtol=1e-4).T)
        net.fc.bias.copy_(-net.fc.weight @ mean)


def saved(value: object, *, new: bool) -> bytes:
    """What torch.save writes: a zip, or with ``new`` false the format before it."""
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=new)
    return file.getvalue()
