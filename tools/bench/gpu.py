"""Measure how fast the mDA layer is on a GPU, each row against its goal.

Beside a device-to-device copy of the same bytes, Caffe's own BatchNorm, and whole training iterations. Exit code 0 when
everything was measured, whether goals are met or missed (the table says which); 1 after an error, as where there is no
GPU.
"""

import argparse
import datetime
from collections.abc import Callable

import caffe

from latent_domains.bench.gpu import STEPS, make_rows
from latent_domains.bench.rows import choose, extent_of, make_parser, print_rows
from latent_domains.common.arguments import natural
from latent_domains.common.gpus import expect_gpu, gpu_names, why_no_layers_on_gpu
from latent_domains.common.program import ProgramError, run


def main() -> None:
    # Only names are asked of these rows.
    names = [row.name for row in make_rows(lambda: None, lambda size: lambda: None)]
    options = _options(names)
    chosen = choose(names, options.only)
    if options.list:
        print(*chosen, sep="\n")
        return
    if reason := why_no_layers_on_gpu():
        raise ProgramError(f"nothing to measure on: {reason}")
    expect_gpu(f"--gpu {options.gpu}", options.gpu, gpu_names())
    import cupy

    caffe.set_device(options.gpu)
    caffe.set_mode_gpu()
    cupy.cuda.Device(options.gpu).use()

    def make_copy(size: int) -> Callable[[], None]:
        source, target = cupy.zeros(size, cupy.uint8), cupy.empty(size, cupy.uint8)
        return lambda: target.data.copy_from_device_async(source.data, size, cupy.cuda.Stream.null)

    properties = cupy.cuda.runtime.getDeviceProperties(options.gpu)
    print(
        f"{datetime.date.today()}, {properties['name'].decode()}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}, "
        f"driver {cupy.cuda.runtime.driverGetVersion()}, CuPy {cupy.__version__}. A ratio's sides are timed in turn, "
        f"{STEPS} steps at a time; medians of rounds."
    )
    rows = make_rows(cupy.cuda.Device(options.gpu).synchronize, make_copy)
    print_rows([row for row in rows if row.name in chosen], extent_of(options), max(map(len, names)))


def _options(names: list[str]) -> argparse.Namespace:
    parser = make_parser("tools.bench.gpu", __doc__, names)
    parser.add_argument("--gpu", type=natural, default=0, help="which GPU, by CUDA's number (default: 0)")
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
