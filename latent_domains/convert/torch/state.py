"""Finds the state dict in a saved object: the object itself, or a part of a training checkpoint."""

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from latent_domains.convert.torch.tensors import CheckpointError, Tensor
from latent_domains.convert.torch.words import plain, shown

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net")
"""What training programs call the state dict in their checkpoints."""


def state_dict(saved: Any) -> dict[str, Tensor]:
    """Tensors by name. Raises CheckpointError if there are none, or something else is among them."""
    if not isinstance(saved, dict):
        raise CheckpointError(f"it holds a {type(saved).__name__}, expected a state dict: a dict of tensors by name")
    found = [key for key in _WRAPPERS if isinstance(saved.get(key), dict)]
    if len(found) > 1:
        raise CheckpointError(f"it holds several state dicts, {', '.join(found)}: expected one")
    tensors = saved[found[0]] if found else saved
    for name, value in tensors.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise CheckpointError(
                f"{shown(name)} in it is a {type(value).__name__}, expected a dict of tensors by name, or one as "
                f"{' or '.join(_WRAPPERS)}"
            )
    if not tensors:
        raise CheckpointError("an empty state dict, expected tensors by name")
    return dict(tensors)


def without_prefix(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The tensors without the modules that all their names begin with, and a note if there are some.

    ``module.`` is what parallel modules put there, ``_orig_mod.`` what torch.compile does, ``model.`` Lightning.
    """
    modules = zip(*(name.split(".")[:-1] for name in tensors), strict=False)
    prefix = "".join(f"{names[0]}." for names in takewhile(lambda names: len(set(names)) == 1, modules))
    notes = (f"all names begin with {plain(prefix)}, which is left out",) if prefix else ()
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}, notes
