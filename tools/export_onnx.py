"""Write a net of stock Caffe layers as ONNX.

    python -m tools.export RUN pacs                                   # folds mDA into stock layers
    python -m tools.export_onnx pacs.prototxt pacs.caffemodel pacs.onnx

The net is a deploy net of tools.export, of tools.convert_torch or like BVLC's, with or without BatchNorm and Scale.
It has one input. The result takes any number of images; all other sizes are those of the prototxt. Input, outputs and
blobs have Caffe's names. Prepare inputs as for Caffe (channels B, G, R, minus the mean). The operator set is 13.

onnx.checker checks the result. Then the program compares every blob of ONNX Runtime and Caffe on the same batches of
pixels minus 128, of one and of several images. A net with smaller inputs, for example from 0 to 1, may need --mean and
--scale. The program refuses and names a layer if docs/converting.md does not list its type, or ONNX has no exact
counterpart of a field.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.export_onnx")

from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.convert.onnx.export import MEAN, export_onnx
from latent_domains.convert.options import add_converter_options, add_pixel_options, converter_options, pixel_options


def main() -> None:
    parser = program_parser("tools.export_onnx", __doc__)
    parser.add_argument("net", type=Path, metavar="NET", help="deploy net, a prototxt")
    parser.add_argument("weights", type=Path, metavar="WEIGHTS", help="its caffemodel")
    parser.add_argument("out", type=Path, metavar="OUT", help="ONNX file to write")
    add_pixel_options(parser, MEAN)
    add_converter_options(parser)
    options = parser.parse_args()
    transform = pixel_options(options)
    export_onnx(options.net, options.weights, options.out, converter_options(options), transform=transform)
