"""Watch runs: state, iteration, speed, time left, loss and the accuracy on the target, live in the terminal.

RUN is a run folder, without --once even one that does not exist yet, or a folder of run folders. Ctrl-C ends only the
view, not the runs. It ends by itself when all runs are finished or failed, with exit code 1 if one failed. Without a
terminal it prints whenever a state or an accuracy changes; with --once it prints once.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.watch")

from pathlib import Path

from latent_domains.common.arguments import program_parser, seconds
from latent_domains.runs.watch import watch


def main() -> int:
    parser = program_parser("tools.watch", __doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders of run folders")
    parser.add_argument("--once", action="store_true", help="print the current state once, and end")
    parser.add_argument(
        "--interval",
        type=seconds,
        default=2.0,
        metavar="SECONDS",
        help="time between two updates (default: %(default)g)",
    )
    options = parser.parse_args()
    return watch(options.runs, once=options.once, interval=options.interval)
