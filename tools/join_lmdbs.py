"""Join LMDBs into one undivided mixture of domains, with the records of all of them in random order.

    python -m tools.join_lmdbs data/pacs/art_painting data/pacs/cartoon data/pacs/photo \\
        data/pacs/art_painting+cartoon+photo
    python -m tools.join_lmdbs --shares 80:20 data/digits/mnist_train data/digits/mnistm_train \\
        data/digits/mnist80+mnistm20_train

Each record is copied byte for byte and keeps its name; the number in its key is new. OUT/domains.txt names the LMDB of
each record; training does not use it. If OUT is this mixture already, the program does nothing.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.join_lmdbs")

import argparse
from pathlib import Path

from latent_domains.common.arguments import natural, percentages, program_parser
from latent_domains.data.join import PROGRAM, join


def _options() -> argparse.Namespace:
    parser = program_parser(PROGRAM, __doc__)
    parser.add_argument(
        "inputs",
        type=Path,
        nargs="+",
        metavar="IN",
        help="LMDB folder; give two or more",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="LMDB folder to make")
    parser.add_argument(
        "--shares",
        type=percentages,
        default=(),
        metavar="P:P:…",
        help="percentages of the LMDBs in the largest possible mixture (default: all records)",
    )
    parser.add_argument("--seed", type=natural, default=0, help="seed of the records and their order (default: 0)")
    parser.add_argument("--force", action="store_true", help="replace OUT if it is another mixture")
    options = parser.parse_args()
    if len(options.inputs) < 2:
        parser.error("expected at least two LMDBs to join, and OUT after them")
    return options


def main() -> None:
    options = _options()
    how = {name: getattr(options, name) for name in ("shares", "seed", "force")}
    join(options.inputs, options.out, **how)
