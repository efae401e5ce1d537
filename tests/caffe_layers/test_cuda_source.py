"""The formulas as CUDA C: the same numbers as NumPy's, and an error for what has no translation."""

import ast
import inspect

import numpy as np
import pytest

from caffe_layers import _cuda_source, _formulas
from tests.caffe_layers.emulation import emulator

FORMULAS = [node for node in ast.parse(inspect.getsource(_formulas)).body if isinstance(node, ast.FunctionDef)]


@pytest.mark.program
def test_cuda_source_every_formula_gives_numpys_numbers():
    assert len(FORMULAS) > 10
    kernels = ""
    for formula in FORMULAS:
        arguments = [f"a[{number}]" for number in range(len(formula.args.args))]
        kernels += (
            f'extern "C" __global__ void try_{formula.name}(const double* a, double* result) '
            f"{{ *result = {formula.name}({', '.join(arguments)}); }}\n"
        )
    text = _cuda_source.translated(inspect.getsource(_formulas))
    module = emulator.compile(f"{text}\n{kernels}")
    rng = np.random.default_rng(0)
    for formula in FORMULAS:
        values = rng.uniform(1.5, 3, len(formula.args.args))
        result = np.full(1, np.nan)
        module.launch(f"try_{formula.name}", (1,), (1,), (values, result))
        expected = getattr(_formulas, formula.name)(*values)
        assert np.isclose(result[0], expected, rtol=1e-14, atol=0), formula.name


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("x = a\n    return x", "one return statement"),
        ("return a ** 2", r"a \*\* 2 has no translation"),
        ("return c", "line 2: c has no translation"),
    ],
)
def test_cuda_source_what_has_no_translation(body, found):
    with pytest.raises(ValueError, match=found):
        _cuda_source.translated(f"def formula(a, b):\n    {body}\n")


def test_cuda_source_whole_numbers_stay_real_in_c():
    assert "(1.0 / 2.0)" in _cuda_source.translated("def half():\n    return 1 / 2\n")
