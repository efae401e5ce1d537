"""The source of the CUDA kernels: the formulas that they share with NumPy, then a ``.cu`` file of this package."""

import ast
from functools import cache
from pathlib import Path

_FUNCTIONS = {"exp": "exp", "log": "log", "sqrt": "sqrt", "maximum": "fmax", "minimum": "fmin"}
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


@cache
def source(name: str) -> str:
    """Return CUDA C++: the formulas, ``common.cuh``, and the kernels of ``caffe_layers/NAME.cu``; plain ASCII.

    CuPy writes it to a file in the locale's encoding, and ``caffe`` may run in any locale.
    """
    formulas, common, kernels = (
        Path(__file__).with_name(file).read_text("utf-8") for file in ("_formulas.py", "common.cuh", f"{name}.cu")
    )
    # A compiler's messages then name the lines of the files.
    text = f'{translated(formulas)}\n#line 1 "common.cuh"\n{common}\n#line 1 "{name}.cu"\n{kernels}'
    return text.encode("ascii", "replace").decode()  # only comments have other letters


def translated(text: str) -> str:
    """Return the functions of a Python module as C++ functions of doubles; each must be one return statement.

    Raises ValueError, with the line, for Python that has no translation.
    """
    functions: list[str] = []
    known = dict(_FUNCTIONS)
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        *before, last = node.body
        if any(not _is_docstring(statement) for statement in before) or not isinstance(last, ast.Return):
            raise ValueError(f"line {node.lineno}: formula {node.name} has to be one return statement")
        names = [argument.arg for argument in node.args.args]
        arguments = ", ".join(f"double {name}" for name in names)
        body = _expression(last.value, names, known)
        functions.append(f"__device__ __forceinline__ double {node.name}({arguments}) {{ return {body}; }}")
        known[node.name] = node.name
    return "\n".join(functions)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _expression(node: ast.expr | None, names: list[str], known: dict[str, str]) -> str:
    match node:
        case ast.BinOp(left, operator, right) if isinstance(operator, _OPERATORS):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(operator)]
            return f"({_expression(left, names, known)} {sign} {_expression(right, names, known)})"
        case ast.UnaryOp(ast.USub(), operand):
            return f"(-{_expression(operand, names, known)})"
        case ast.Call(ast.Name(function), arguments, []) if function in known:
            return f"{known[function]}({', '.join(_expression(argument, names, known) for argument in arguments)})"
        case ast.Name(name) if name in names:
            return name
        case ast.Constant(value) if type(value) in (int, float):
            return repr(float(value))
    found = "nothing" if node is None else ast.unparse(node)
    raise ValueError(f"line {getattr(node, 'lineno', '?')}: {found} has no translation to CUDA")
