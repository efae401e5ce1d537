"""Whether there is a GPU to test with, and if not, why."""

import os

import caffe

from tools.caffe_process import has_cuda


def _why_not() -> str | None:
    if not has_cuda():
        return "this Caffe was built without CUDA"
    try:
        import cupy
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no GPU: {error}"
    caffe.set_device(int(os.environ.get("GPU", "0")))
    return None


WHY_NO_GPU = _why_not()
