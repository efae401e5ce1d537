"""Draw nets with graphviz, in a layout that shows the paper's parts.

The blobs between layers become arrows. A chain of layers (mDA, Scale, ReLU, pooling) is in one box with the layer
before it, and Python layers show their class. Colours mark data, weights, branch, mDA and losses. ``w`` and ``label``
end in an ellipse; each layer that reads them shows their name at its left.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.draw")

from pathlib import Path

from caffe.proto import caffe_pb2

from latent_domains.common.arguments import program_parser
from latent_domains.common.files import write_aside
from latent_domains.common.program import ROOT, ProgramError, from_root
from latent_domains.models.allowed import DATA, read_net
from latent_domains.models.drawing import FORMATS, draw
from latent_domains.models.prototxt import for_phase

DOCS = tuple(
    f"prototxt/{name}.prototxt"
    for name in (
        "mnist/digits_train",
        "alexnet/office31_train",
        "alexnet/office31_fc7_train",
        "alexnet/office_caltech_train",
        "alexnet/office_caltech_deploy",
        "resnet18/pacs_train",
        "resnet18/pacs_deploy",
    )
)
"""The nets in docs/nets.md, drawn if none is named."""

PHASES = {"train": caffe_pb2.TRAIN, "test": caffe_pb2.TEST}


def main() -> None:
    parser = program_parser("tools.draw", __doc__)
    parser.add_argument(
        "nets", nargs="*", type=Path, metavar="NET.prototxt", help="nets to draw (default: the nets in docs/nets.md)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the pictures (default: the current one; docs/nets if no net is named)",
    )
    parser.add_argument("--format", choices=FORMATS, default="svg", help="format of the pictures (default: svg)")
    parser.add_argument(
        "--phase", choices=PHASES, default="train", help="draw the layers of this phase (default: train)"
    )
    options = parser.parse_args()
    nets = options.nets or [ROOT / net for net in DOCS]
    out = options.out or (Path() if options.nets else ROOT / "docs/nets")
    pictures = {out / f"{net.stem}.{options.format}": net for net in nets}
    if len(pictures) < len(nets):
        raise ProgramError(f"{', '.join(map(str, nets))}: expected distinct file names, each names its picture")
    for file, path in pictures.items():
        net = for_phase(read_net(path, DATA), PHASES[options.phase], path)
        drawn = draw(net, options.format)
        with write_aside(file) as aside:
            aside.write_bytes(drawn)
        print(f"wrote {from_root(file)}")
