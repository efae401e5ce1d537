"""Measure how fast mDA and whole nets are, each row against its goal; with --gpu the layers on a GPU.

On a CPU, compare with Caffe's BatchNorm and PyTorch; on a GPU, with a copy of the same bytes too. The exit
code is 0 if everything was measured, even if goals are missed (the table says which), and 1 after an error.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.bench")

import argparse
import datetime
import os
from collections.abc import Callable

from latent_domains.common.arguments import natural, positive, program_parser, seconds
from latent_domains.common.program import ProgramError


def main() -> None:
    from bench import beside_torch, layers, rows

    options = _options()
    if options.gpu is None:
        about = "" if options.list else _cpu(options.threads)
        measurable = [*layers.cpu_rows(), *beside_torch.rows()]
    else:
        device, about = (rows.CPU, "") if options.list else _gpu(options.gpu)
        measurable = [*layers.gpu_rows(device), *beside_torch.gpu_rows(options.gpu)]
    chosen = rows.choose(measurable, options.only)
    if options.list:
        print(*(row.name for row in chosen), sep="\n")
        return
    left_out = [] if beside_torch.has_torch() else [row for row in chosen if row.name.startswith("train-")]
    if left_out:
        print(f"{len(left_out)} rows are left out: they need PyTorch, which tools/setup.sh torch installs")
        chosen = [row for row in chosen if row not in left_out]
    print(f"{about}. Both sides of a ratio are timed alternately: medians of rounds, for PyTorch the best.")
    if chosen:
        rows.print_rows(chosen, rows.Extent(0 if options.smallest else options.seconds, options.smallest))


def _cpu(threads: int | None) -> str:
    """Set the threads of this process; return a description of the processor."""
    import numba
    from threadpoolctl import ThreadpoolController

    from latent_domains.common.versions import openblas_kernel

    if (threads or 1) > numba.config.NUMBA_NUM_THREADS:
        raise ProgramError(f"--threads {threads}: expected 1 to {numba.config.NUMBA_NUM_THREADS}")
    openmp = ThreadpoolController().select(user_api="openmp")
    openmp.limit(limits=threads)
    found = openmp.info()[0]["num_threads"]
    numba.set_num_threads(min(found, numba.config.NUMBA_NUM_THREADS))
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, load {load:.1f}; threads {found}, OpenBLAS's kernel {openblas_kernel()}"


def _gpu(number: int):
    """Choose a GPU; return it and its description."""
    from bench.rows import TimedDevice
    from latent_domains.common.gpus import expect_gpu, gpu_names, why_no_layers_on_gpu

    if reason := why_no_layers_on_gpu():
        raise ProgramError(f"nothing to measure on: {reason}")
    expect_gpu(f"--gpu {number}", number, gpu_names())
    import caffe

    from caffe_layers._device import import_cupy

    cupy = import_cupy()
    caffe.set_device(number)
    caffe.set_mode_gpu()
    cupy.cuda.Device(number).use()

    def make_copy(size: int) -> Callable[[], None]:
        source, target = cupy.zeros(size, cupy.uint8), cupy.empty(size, cupy.uint8)
        return lambda: target.data.copy_from_device_async(source.data, size, cupy.cuda.Stream.null)

    runtime, properties = cupy.cuda.runtime, cupy.cuda.runtime.getDeviceProperties(number)
    steps = 20  # the host only starts kernels, and waits after the last
    return TimedDevice(steps, cupy.cuda.Device(number).synchronize, make_copy), (
        f"{datetime.date.today()}, {properties['name'].decode()}, CUDA {runtime.runtimeGetVersion()}, "
        f"driver {runtime.driverGetVersion()}, CuPy {cupy.__version__}, {steps} steps at a time"
    )


def _options() -> argparse.Namespace:
    parser = program_parser("tools.bench", __doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="ROW", help="rows to measure, or patterns such as 'batchnorm-*' (default: all)"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--seconds", type=seconds, default=4, help="time to spend on each comparison (default: 4)")
    parser.add_argument("--smallest", action="store_true", help="run each row once on little data, as a test")
    parser.add_argument("--gpu", type=natural, metavar="N", help="measure the layers on this GPU, by CUDA's number")
    parser.add_argument("--threads", type=positive, help="threads (default: OMP_NUM_THREADS, or one per core)")
    return parser.parse_args()
