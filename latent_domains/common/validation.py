"""Values that were read from a file, checked against a type."""

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from latent_domains.common.program import ProgramError

_EXPECTED = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
}


T = TypeVar("T")


def checked(kind: type[T], values: Any, where: str) -> T:
    """``values`` as ``kind``. Raises ProgramError with ``where``, the key, what was found and what was expected."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise ProgramError(where + _first(error)) from error


def _first(error: ValidationError) -> str:
    """The first of the errors in a line; keys that one object lacks are named together."""
    errors = error.errors(include_url=False)
    first = errors[0]
    key, kind = first["loc"], first["type"]
    if kind == "missing":
        missing = [str(one["loc"][-1]) for one in errors if one["type"] == kind and one["loc"][:-1] == key[:-1]]
        key, said = key[:-1], f"found no {', '.join(missing)}"
    elif kind == "value_error":
        said = str(first["ctx"]["error"])
    else:
        expected = _EXPECTED.get(kind, first["msg"].removeprefix("Input should be ")).format(**first.get("ctx", {}))
        said = f"found {first['input']!r}, expected {expected}"
    return "".join(f"[{one}]" if isinstance(one, int) else f": {one}" for one in key) + f": {said}"
