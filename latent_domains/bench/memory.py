"""What one mDA layer adds to a process, in a fresh one: ``python -m latent_domains.bench.memory 384 32 24 24``."""

import gc
import json
import resource
import subprocess
import sys
from pathlib import Path

from latent_domains.common.program import ROOT, ProgramError

DOMAINS = 3


def added_share(shape: tuple[int, ...]) -> float:
    """Resident bytes beyond Caffe's own blobs that an MDALayer adds on an x of ``shape``, as a share of x's bytes.

    Raises ProgramError if the measuring process fails.
    """
    command = [sys.executable, "-m", __name__, *map(str, shape)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProgramError(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-500:]}")
    return float(json.loads(done.stdout)["share"])


def _resident() -> int:
    """Bytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _measure(shape: tuple[int, ...]) -> float:
    from latent_domains.bench.layers import LayerBench, mda_layer

    # What a first layer brings once (interpreter modules, machine code, threads) belongs to no blob.
    small = LayerBench((4, 4, *[2] * (len(shape) - 2)), {"y": mda_layer("y", DOMAINS)})
    small.step("y")
    gc.collect()
    before = _resident()
    bench = LayerBench(shape, {"y": mda_layer("y", DOMAINS)})
    net = bench.net
    for _ in range(3):
        bench.step("y")
    blobs = [*net.blobs.values(), *(blob for blobs in net.params.values() for blob in blobs)]
    for blob in blobs:
        blob.data.ravel()[::512] += 0  # touch every page: a blob that Caffe has not used yet is not resident
        blob.diff.ravel()[::512] += 0
    gc.collect()
    # A Split's tops share their bottom's data, but not its gradient.
    own = {blob.data.__array_interface__["data"][0]: blob.data.nbytes for blob in blobs}
    own |= {blob.diff.__array_interface__["data"][0]: blob.diff.nbytes for blob in blobs}
    return (_resident() - before - sum(own.values())) / net.blobs["x"].data.nbytes


if __name__ == "__main__":
    print(json.dumps({"share": _measure(tuple(map(int, sys.argv[1:])))}))
