"""Measure tools.build_lmdb against Caffe's convert_imageset on the same images, in turns.

Whole programs are timed, from start to exit. Each round runs all of them once; the ratio is taken within each round and
its median printed. Without --images the set is made of 227×227 JPEG crops of the demo's photographs.
"""

import argparse
from pathlib import Path
from statistics import median

from latent_domains.bench.lmdbs import compare
from latent_domains.common.arguments import natural, positive, program_parser
from latent_domains.common.program import run


def _options() -> argparse.Namespace:
    parser = program_parser("tools.bench.lmdb", __doc__)
    parser.add_argument("--images", type=Path, metavar="DIR", help="take JPEGs from here, repeated up to --count")
    parser.add_argument("--count", type=positive, default=9991, help="images in the set (default: 9991)")
    parser.add_argument("--side", type=positive, default=256, help="side they are resized to (default: 256)")
    parser.add_argument("--rounds", type=positive, default=3, help="default: 3")
    parser.add_argument("--jobs", type=positive, nargs="+", default=[1, 2], help="threads to try (default: 1 2)")
    parser.add_argument("--tmp", type=Path, metavar="DIR", help="temporary folder, for 4 GB (default: the system's)")
    parser.add_argument("--seed", type=natural, default=0, help="of the crops (default: 0)")
    return parser.parse_args()


def main() -> None:
    options = _options()
    tables = compare(
        options.images,
        count=options.count,
        side=options.side,
        rounds=options.rounds,
        jobs=options.jobs,
        tmp=options.tmp,
        seed=options.seed,
    )
    print(f"{'':8}{'':22}{'images/s':>10}{'ratio':>8}   {'ratio of each round'}")
    for store, seconds in tables.items():
        theirs = seconds["convert_imageset"]
        for label, times in seconds.items():
            ratios = [a / b for a, b in zip(theirs, times, strict=True)]
            rate = options.count / median(times)
            print(f"{store:8}{label:22}{rate:10.0f}{median(ratios):8.2f}   {' '.join(f'{r:.2f}' for r in ratios)}")


if __name__ == "__main__":
    run(main)
