"""Measure how fast mDA and whole nets are, each row against its goal.

Exit code 0 when everything was measured, whether goals are met or missed (the table says which); 1 after an error.
"""

import argparse
import os

from latent_domains.common.arguments import positive
from latent_domains.common.program import ProgramError, run

SHARE = "share"


def main() -> None:
    from latent_domains.bench import limit, rows, training, whole

    table = [*rows.ROWS, *whole.ROWS]
    names = [*(row.name for row in table), SHARE]
    options = _options(names)
    chosen = rows.choose(names, options.only)
    if options.list:
        print(*chosen, sep="\n")
        return
    beside_torch = {row.name for row in whole.ROWS} & set(chosen)
    if beside_torch and not whole.has_torch():
        print(f"{len(beside_torch)} rows are left out: they need PyTorch, which tools/setup.sh torch installs")
        chosen = [name for name in chosen if name not in beside_torch]

    import numba
    from threadpoolctl import ThreadpoolController

    if (options.threads or 1) > numba.config.NUMBA_NUM_THREADS:
        raise ProgramError(f"--threads {options.threads}: expected 1 to {numba.config.NUMBA_NUM_THREADS}")
    openmp = ThreadpoolController().select(user_api="openmp")
    openmp.limit(limits=options.threads)
    threads = openmp.info()[0]["num_threads"]
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; threads {threads}. A ratio's sides are timed in turn; "
        "medians of rounds, for whole nets (their number of threads ends the name) the best."
    )
    rows.print_rows([row for row in table if row.name in chosen], rows.extent_of(options), max(map(len, names)))
    if SHARE in chosen:
        print("\nWhere the CPU time of an iteration goes (mDA, one thread):")
        for name in training.NETS:
            found = limit.measured_apart(name, options.iterations, smallest=options.smallest)
            print(*limit.lines(name, found), sep="\n", flush=True)


def _options(names: list[str]) -> argparse.Namespace:
    from latent_domains.bench.rows import make_parser

    parser = make_parser("tools.bench", __doc__, names)
    parser.add_argument(
        "--iterations", type=positive, default=3, help="iterations that shares are measured in (default: 3)"
    )
    parser.add_argument("--threads", type=positive, help="threads (default: OMP_NUM_THREADS, or one a core)")
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
