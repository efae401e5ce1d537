"""The state dict in what ``torch.save`` saved: by itself, or as a part of a training checkpoint."""

from typing import Any

from latent_domains.convert.torch.tensors import CheckpointError, Tensor
from latent_domains.convert.torch.words import shown

_WRAPPERS = ("state_dict", "model_state_dict", "model")
"""What training programs call the state dict in their checkpoints."""

_PARALLEL = "module."
"""What PyTorch's parallel modules put before each name."""


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
    return without_prefix(dict(tensors))


def without_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without what a parallel module put before all their names."""
    if all(name.startswith(_PARALLEL) for name in tensors):
        return {name.removeprefix(_PARALLEL): tensor for name, tensor in tensors.items()}
    return tensors
