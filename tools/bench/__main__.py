"""``python -m tools.bench``: the speed table, each row against its goal.

Exit code 0 when everything was measured, whether goals are met or missed (the table says which); 1 after an error.
"""

import argparse
import os

from latent_domains.common.arguments import positive
from latent_domains.common.program import ProgramError, run

SHARE = "share"


def main() -> int:
    """Measure, print a line per row, then where an iteration's time goes."""
    from latent_domains.bench.rows import ROWS, choose, print_rows

    names = [*(row.name for row in ROWS), SHARE]
    arguments = _arguments(names)
    chosen = choose(names, arguments.only)
    if arguments.list:
        print(*chosen, sep="\n")
        return 0

    import numba
    from threadpoolctl import ThreadpoolController

    if (arguments.threads or 1) > numba.config.NUMBA_NUM_THREADS:
        raise ProgramError(f"--threads {arguments.threads}: expected 1 to {numba.config.NUMBA_NUM_THREADS}")
    openmp = ThreadpoolController().select(user_api="openmp")
    openmp.limit(limits=arguments.threads)
    threads = openmp.info()[0]["num_threads"]
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; threads {threads}. "
        "A ratio's sides are timed in turn; medians of rounds."
    )
    width = max(map(len, names))
    print_rows([row for row in ROWS if row.name in chosen], arguments.seconds, width)
    if SHARE in chosen:
        _print_share(arguments.iterations, threads)
    return 0


def _print_share(iterations: int, threads: int) -> None:
    from latent_domains.bench import training

    net = training.with_data_in_memory(training.read_net())
    print(f"\nWhere a digits iteration goes (caffe time, {iterations} iterations, forward and backward):")
    for title, variant in (("BatchNorm", training.with_batch_norm(net)), ("mDA", net)):
        times = training.times_by_kind(variant, iterations, threads)
        total = sum(times.values())
        parts = [f"{kind} {ms:.1f} ms ({100 * ms / total:.0f} %)" for kind, ms in times.items() if ms >= 0.01 * total]
        print(f"  {title:9}  {total:6.1f} ms: {', '.join(parts)}")
        ours = {kind: 100 * ms / total for kind, ms in times.items()}
    print(
        f"mDA takes {ours.get('MDALayer', 0):.0f} % of its net's iteration, near what moving its blobs takes (rows "
        f"traffic-*).\nWhat is left is Caffe's own: {ours.get('Convolution', 0):.0f} % is convolution (columns, then "
        "matrix products)."
    )


def _arguments(names: list[str]) -> argparse.Namespace:
    from latent_domains.bench.rows import make_parser

    parser = make_parser(
        "python -m tools.bench", "Measure how fast the mDA layer is, each row against its goal.", names
    )
    parser.add_argument("--iterations", type=positive, default=10, help="iterations of caffe time (default 10)")
    parser.add_argument("--threads", type=positive, help="threads (default: OMP_NUM_THREADS, or one a core)")
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
