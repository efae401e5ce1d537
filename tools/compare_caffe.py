"""Compare two builds of Caffe: every layer of training nets alone, on the same random numbers.

The Caffe of this shell computes each layer forward and backward, and so does the one of PREFIX (such as one that
docker/build_caffe.sh made from fewer patches). Printed is, for each kind of layer, the largest difference as a share of
the largest value that PREFIX has in the blob: "inf" where a value is not finite, and where PREFIX alone has only zeros.
The exit code is 1 if one exceeds --tolerance. Layers that are alike are compared once.
"""

from pathlib import Path

from latent_domains.bench.builds import compare_builds, other_build
from latent_domains.common.arguments import positive, program_parser, real
from latent_domains.common.markdown import table
from latent_domains.common.program import ROOT, run


def _tolerance(text: str) -> float:
    return real(text, lambda value: 0 <= value <= 1, "a share from 0 to 1")


def main() -> int:
    parser = program_parser("tools.compare_caffe", __doc__)
    parser.add_argument("prefix", type=Path, metavar="PREFIX", help="the other build")
    parser.add_argument("nets", type=Path, nargs="*", metavar="NET", help="default: all prototxt/*/*_train.prototxt")
    parser.add_argument("--tolerance", type=_tolerance, default=1e-5, help="default: %(default)s")
    parser.add_argument("--images", type=positive, default=32, help="of a batch, at most (default: %(default)s)")
    options = parser.parse_args()
    nets = options.nets or sorted(ROOT.glob("prototxt/*/*_train.prototxt"))
    with other_build(options.prefix) as other:
        rows = compare_builds(other, nets, options.images)
    print(
        table(
            ["layer", "layers", "largest difference", "of", "in"],
            [[row.type, str(row.layers), f"{row.furthest.relative:.1e}", row.furthest.name, row.where] for row in rows],
        )
    )
    return int(max(row.furthest.relative for row in rows) > options.tolerance)


if __name__ == "__main__":
    run(main)
