"""What importing a module brings with it, seen from a fresh interpreter."""

import subprocess
import sys

import pytest

from latent_domains.common.program import ROOT


def fresh(code):
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("module", ["_cpu_mda", "_cpu_softmax", "_param_str"])
def test_the_mathematics_needs_neither_caffe_nor_numba(module):
    loaded = fresh(
        "import sys; sys.modules['caffe'] = sys.modules['numba'] = None\n"  # an import of either now fails
        f"import caffe_layers.{module}\n"
        "print(*{name.split('.')[0] for name in sys.modules if sys.modules[name]})"
    )
    assert not {"caffe", "numba", "llvmlite", "scipy"} & set(loaded)


def test_the_package_exports_the_layers_and_nothing_else():
    names = fresh(
        "import caffe_layers\n"
        "assert caffe_layers.MDALayer.__name__ == 'MDALayer'\n"
        "from caffe_layers import *\n"
        "print(*sorted(name for name in globals() if not name.startswith('_') and name != 'caffe_layers'))"
    )
    assert names == ["DomainAssignmentLayer", "EntropyLossLayer", "MDALayer", "PermutationLayer"]
