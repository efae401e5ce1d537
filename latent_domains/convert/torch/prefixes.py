"""Finds the net in what a training program saved: the prefix of names below which a known net lies.

Programs wrap a net in modules (``module.``, ``backbone.``, ``featurizer.network.``) and its state dict in a dict of
other things. The keys of such dicts are taken for the first parts of a name: ``state_dict.module.conv1.weight``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.wording import some
from latent_domains.convert.torch.contents import find_network
from latent_domains.convert.torch.pickles import NumpyArray, Unknown
from latent_domains.convert.torch.tensors import escaped
from latent_domains.experiment.networks import NETWORKS
from latent_domains.networks.network import CheckpointError

Tensors = Mapping[str, NDArray]

_MARKS = tuple(dict.fromkeys(network.torch.mark for network in NETWORKS.values() if network.torch))

_DEEPEST = 8
"""Dicts within dicts that are looked through."""

_MOST = 10**6
"""Dicts and tensors that are looked at: dicts that hold the same dict many times make billions of a few lines."""


def named_tensors(saved: Any) -> dict[str, NDArray]:
    """All tensors in a saved object by their names, which begin with the keys of the dicts that they lie in.

    Raises CheckpointError if there are none.
    """
    found: dict[str, NDArray] = {}
    for number, (name, value) in enumerate(_walk(saved, "", frozenset())):
        if number > _MOST:
            raise CheckpointError(f"it holds more than {_MOST:,} dicts and tensors, expected a state dict")
        if not isinstance(value, np.ndarray):
            continue
        if name in found:
            raise CheckpointError(f"two tensors in it are called {escaped(name)}, expected names that differ")
        found[name] = value
    if not found:
        objects = [saved, *(saved.values() if isinstance(saved, dict) else ())]
        unknown = dict.fromkeys(type(one).__name__ for one in objects if isinstance(one, Unknown))
        what = f"objects of {some(map(escaped, unknown), 3)}" if unknown else f"a {type(saved).__name__}"
        raise CheckpointError(
            f"it holds {what} and no tensor by name, expected a state dict. If a whole model was saved, load it where "
            "its code is and save torch.save(model.state_dict(), FILE)"
        )
    return found


def _walk(value: Any, name: str, within: frozenset[int]) -> Iterator[tuple[str, Any]]:
    """The dicts and tensors in dicts of dicts by their names; a dict comes before what it holds."""
    if isinstance(value, NumpyArray):
        value = value.values
    if name and isinstance(value, dict | np.ndarray):
        yield name, value
    if isinstance(value, dict) and len(within) < _DEEPEST and id(value) not in within:
        for key, one in value.items():
            if isinstance(key, str | int):
                yield from _walk(one, f"{name}.{key}" if name else str(key), within | {id(value)})


def find_net(tensors: Tensors, prefix: str | None = None) -> tuple[dict[str, NDArray], tuple[str, ...]]:
    """The tensors of the net that lies below ``prefix`` (None: the only one), by its own names; and notes for the user.

    Where several prefixes have the same tensors, any serves. Without a known net, all tensors are returned. Raises
    CheckpointError if nets below several prefixes differ, or if none lies below ``prefix``.
    """
    nets = {found: _below(tensors, found) for found in _prefixes(tensors)}
    if prefix is not None:
        given = prefix.rstrip(".")
        chosen = {found: net for found, net in nets.items() if f".{found}".endswith(f".{given}." if given else ".")}
        if exact := chosen.get(f"{given}." if given else ""):
            chosen = {f"{given}." if given else "": exact}
        if not chosen:
            raise CheckpointError(f"--prefix {escaped(prefix)}: no known net lies there, expected {_named(nets)}")
        nets = chosen
    if not nets:
        return dict(tensors), ()
    nets = {found: net for found, net in nets.items() if _is_whole(net)} or nets
    first, *others = nets
    if any(_differ(nets[first], nets[other]) for other in others):
        raise CheckpointError(f"nets that differ lie below {_named(nets)}: --prefix chooses one")
    left = [name for name in tensors if not name.startswith(tuple(nets))]
    notes = [f"the net is what lies below {escaped(first)}"] if first else []
    notes += [f"left out: {some(map(escaped, left), 5)}"] if left else []
    return nets[first], tuple(notes)


def _prefixes(tensors: Tensors) -> dict[str, None]:
    """What stands before the marks of known nets, in the order of the tensors."""
    found = [name.removesuffix(mark) for name in tensors for mark in _MARKS if name.endswith(mark)]
    return dict.fromkeys(prefix for prefix in found if not prefix or prefix.endswith("."))


def _below(tensors: Tensors, prefix: str) -> dict[str, NDArray]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _is_whole(net: Tensors) -> bool:
    """Whether all tensors of the network, but a classifier, are there."""
    try:
        return net.keys() >= find_network(net).torch.shapes().keys()
    except CheckpointError:
        return False


def _differ(net: Tensors, other: Tensors) -> bool:
    """Whether two nets have other tensors."""
    return net.keys() != other.keys() or any(
        tensor is not other[name] and not np.array_equal(tensor, other[name]) for name, tensor in net.items()
    )


def _named(nets: Mapping[str, Tensors]) -> str:
    return some((escaped(prefix) if prefix else "no prefix" for prefix in nets), 5) or "one of none"
