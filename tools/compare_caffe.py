"""Compare two builds of Caffe: every layer of training nets alone, on the same random numbers.

The Caffe of this shell computes each layer forward and backward, and so does the one of PREFIX (such as one that
docker/build_caffe.sh made from fewer patches). Printed is, for each kind of layer, the largest difference as a share of
the largest value of its blob, and "inf" where a value is not finite; the exit code is 1 if one exceeds --tolerance.
Layers that are alike are compared once.
"""

from collections import Counter
from pathlib import Path

from tqdm import tqdm

from latent_domains.bench import builds
from latent_domains.common.arguments import positive, program_parser, real
from latent_domains.common.markdown import table
from latent_domains.common.program import ROOT, ProgramError, run
from latent_domains.common.wording import some
from latent_domains.experiment.datasets import DATASETS


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
    seen, count, worst = set(), Counter(), {}
    with builds.other_build(options.prefix) as compute_there:
        for path in tqdm(nets):
            data = max((name for name in DATASETS if path.name.startswith(name)), key=len, default=None)
            if data is None:
                raise ProgramError(f"{path}: expected a name that begins with a dataset's: {', '.join(DATASETS)}")
            for name, net in builds.layers_alone(path, DATASETS[data].shape, options.images):
                kind, text = net.layer[-1].type, str(net)
                count[kind] += 1
                if text in seen:
                    continue
                seen.add(text)
                for what, share in builds.difference(builds.compute(net), compute_there(net)).items():
                    worst[kind] = max(worst.get(kind, (-1.0,)), (share, what, f"{path.name}: {name}"))
    if not worst:
        raise ProgramError(f"{some(map(str, nets))}: no layer to compare, expected one that Caffe itself computes")
    rows = [
        [kind, str(count[kind]), f"{share:.1e}", what, where] for kind, (share, what, where) in sorted(worst.items())
    ]
    print(table(["layer", "layers", "largest difference", "of", "in"], rows))
    return int(max(share for share, _, _ in worst.values()) > options.tolerance)


if __name__ == "__main__":
    run(main)
