"""The way from folders to predictions on trees of DomainNet's shape: what grows with the number of pictures, and how.

    python -m tests.scale --pictures 20000,60000,180000 --work DIR

Each step is a command, measured in processes of its own. Of each size the seconds are printed, those of the processor
and the largest memory; last, the exponent by which the processor's seconds grow between the first size and the last
(1: with the number of pictures, 2: with its square). It fails if a step needs more memory than a gigabyte beside that
of ``caffe``. At the first size, `adapt` is interrupted while it builds LMDBs and while it trains, and must come to
what it comes to without.
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from latent_domains.common.arguments import natural, positive
from latent_domains.common.markdown import table
from latent_domains.experiment.datasets import Dataset, of_network
from tests.programs import hear_signals, interrupt
from tests.scale.measure import Taken, measure
from tests.scale.tree import CLASSES, DOMAINS

MEBIBYTES = 1024
"""Of memory that a step may take, beside Caffe's."""

TARGET = "sketch"
SOURCES = tuple(domain for domain in DOMAINS if domain != TARGET)
NETWORK = "mnist"
ITERATIONS = 20
TRAINING = ("--iterations", ITERATIONS, "--batch-size", 16, "--solver-mode", "CPU")
NAME = "domainnet"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scale", description=__doc__.partition("\n")[0])
    parser.add_argument("--pictures", type=_sizes, default=[20_000, 60_000, 180_000], metavar="N,N,…")
    parser.add_argument("--seed", type=natural, default=0, help="of the trees (default: %(default)s)")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep trees, LMDBs and runs here")
    known = list(steps(Path(), 0, 0))
    parser.add_argument("--steps", nargs="+", choices=known, default=known, help="these alone (default: all)")
    parser.add_argument("--no-interrupts", action="store_true")
    options = parser.parse_args()
    hear_signals()
    with tempfile.TemporaryDirectory(prefix="scale-") as temporary:
        return way(options, (options.work or Path(temporary)).resolve())


def _sizes(text: str) -> list[int]:
    return sorted(map(positive, text.split(",")))


def way(options: argparse.Namespace, work: Path) -> int:
    """Measure all steps at all sizes and print the table; 1 if one took too much memory."""
    taken: dict[str, dict[int, Taken]] = {}
    for pictures in options.pictures:
        place = work / str(pictures)
        place.mkdir(parents=True, exist_ok=True)
        for step, commands in steps(place, pictures, options.seed).items():
            if step not in options.steps:
                continue
            found = [measure(command, place / "log") for command in commands()]
            taken.setdefault(step, {})[pictures] = total = sum(found[1:], found[0])
            print(f"{pictures} {step}: {total}", flush=True)
    print(markdown(taken, options.pictures))
    if "adapt" in options.steps and not options.no_interrupts:
        print(interrupted(work / str(options.pictures[0])))
    return int(max(one.mib for sizes in taken.values() for one in sizes.values()) > MEBIBYTES)


def steps(place: Path, pictures: int, seed: int) -> dict[str, Callable[[], list[list[object]]]]:
    """The commands of each step, in their order, which are asked for when it is their turn."""
    tree, data, run, out = place / "tree", place / "data", place / "runs/mda", place / "adapt"

    def write_run() -> list[list[object]]:
        file = place / "dataset.json"
        file.write_text(json.dumps(_dataset().to_json()))
        options = ("--dataset", file, "--data", data, *TRAINING, "--force", run)
        return [_tool("write_run", *options)]

    return {
        "tree": lambda: [[sys.executable, "-m", "tests.scale.tree", tree, "--pictures", pictures, "--seed", seed]],
        "build_lmdb": lambda: [
            _tool("build_lmdb", tree / domain, data / NAME / domain, "--resize", "28x28", "--jobs", 1, "--force")
            for domain in DOMAINS
        ],
        "write_run": write_run,
        "train": lambda: [_tool("train", run, "--threads", 1)],
        "evaluate": lambda: [_tool("evaluate", run)],
        "report": lambda: [_tool("report", run)],
        "join_lmdbs": lambda: [
            _tool("join_lmdbs", *(data / NAME / source for source in SOURCES), data / "mixture", "--force")
        ],
        "predict": lambda: [_tool("predict", run, tree, "--out", place / "predictions.csv", "--jobs", 1, "--force")],
        "adapt": lambda: [_tool(*adapt(place, out), "--force")],
        "adapt again": lambda: [_tool(*adapt(place, out))],
    }


def _tool(name: str, *arguments: object) -> list[object]:
    return [sys.executable, "-m", f"tools.{name}", *arguments]


def adapt(place: Path, out: Path) -> list[object]:
    """The command line of ``tools.adapt`` from five domains to the sixth."""
    sources = [option for source in SOURCES for option in ("--source", place / "tree" / source)]
    where = [*sources, "--target", place / "tree" / TARGET, "--out", out]
    return ["adapt", *where, "--network", NETWORK, *TRAINING, "--threads", 1, "--jobs", 1]


def _dataset() -> Dataset:
    return replace(
        of_network(NETWORK),
        name=NAME,
        domains=tuple(DOMAINS),
        sources=SOURCES,
        targets=(TARGET,),
        classes=CLASSES,
        counts=dict(DOMAINS),
        test_split=False,
        test_counts=None,
        made_by="python -m tools.build_lmdb",
    )


def markdown(taken: dict[str, dict[int, Taken]], sizes: list[int]) -> str:
    """A row for each step: seconds (of the processor) at each size, how they grow, the largest memory of each size."""
    rows = []
    for step, found in taken.items():
        first, last = found[sizes[0]], found[sizes[-1]]
        grows = math.log(last.cpu / first.cpu) / math.log(sizes[-1] / sizes[0]) if len(sizes) > 1 else math.nan
        seconds = [f"{one.seconds:.1f} ({one.cpu:.1f})" for one in found.values()]
        memory = " ".join(f"{one.mib:.0f}" for one in found.values())
        rows.append([f"`{step}`", *seconds, f"{grows:.2f}", memory, f"{last.caffe_mib:.0f}" if last.caffe_mib else ""])
    header = ["step", *(f"{size:,} pictures, s (of the processor)" for size in sizes), "exponent", "MiB", "caffe, MiB"]
    return table(header, rows)


def interrupted(place: Path) -> str:
    """Interrupt ``adapt`` twice and let it go on. Raises AssertionError if it lost anything."""
    whole, out = place / "adapt", place / "interrupted" / "adapt"
    shutil.rmtree(out.parent, ignore_errors=True)
    command = adapt(place, out)
    code, said = interrupt(*command, at="quickdraw:", whole_group=True)
    assert code == 130 and "Traceback" not in said, said
    done = {lmdb: (lmdb / "data.mdb").stat().st_mtime_ns for lmdb in (out / "data" / out.name).iterdir()}
    assert len(done) == list(SOURCES).index("quickdraw"), sorted(done)
    code, said = interrupt(*command, at=f" {ITERATIONS // 4}/{ITERATIONS} [", whole_group=True)
    assert code == 130 and "Traceback" not in said, said
    snapshots = sorted(file.name for file in (out / "run/snapshots").glob("*.solverstate"))
    assert snapshots and not (out / "run/record.json").exists()
    measure(_tool(*command), place / "log")
    assert all((lmdb / "data.mdb").stat().st_mtime_ns == then for lmdb, then in done.items())
    for name in ("predictions.csv", "domains.csv", "model.caffemodel"):
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    return (
        f"adapt interrupted while it built the LMDB of quickdraw ({len(done)} stood) and while it trained (snapshots: "
        f"{', '.join(snapshots)}): the same command came to the same predictions, domains and weights"
    )


if __name__ == "__main__":
    sys.exit(main())
