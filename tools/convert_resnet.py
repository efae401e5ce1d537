"""Convert a ResNet18, ResNet34 or ResNet50 from PyTorch or Lua Torch to Caffe.

    python -m tools.convert_resnet resnet50.pth resnet50

reads a state dict of torch.save (zip or older format, by itself or in a training checkpoint), safetensors (names of
torchvision or timm) or a .t7 of fb.resnet.torch, told apart by what is in them; no code in them ever runs. It writes

    OUT.prototxt, OUT.caffemodel  the net itself with BatchNorm and Scale; its first line says which mean it wants
    OUT_mda4.caffemodel           weights that mDA nets with four domains begin with (all but branch and classifier)

Inputs stay as Caffe's are: B, G, R, 0 to 255, less a mean. The rest of the checkpoint's preprocessing (R, G, B, /255,
its standard deviations) goes into conv1. The net itself subtracts the checkpoint's mean and is then exact; the mDA nets
subtract 104, 117, 123, which is exact but for what conv1 sees beyond the border of an image.

Before anything is written, the checkpoint's own net is built from its tensors and run beside Caffe's on random inputs
and, with --images, on images; the stem, every block, the features and the logits are compared.
"""

from latent_domains.common.program import run
from latent_domains.convert.torch.conversion import convert


def main() -> None:
    convert("convert_resnet", __doc__)


if __name__ == "__main__":
    run(main)
