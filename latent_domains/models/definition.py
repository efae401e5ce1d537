"""A net's definition as Caffe builds it for one phase, whatever the age of the file."""

from pathlib import Path

from caffe.proto.caffe_pb2 import BlobShape, LayerParameter, NetParameter, NetState, NetStateRule

from latent_domains.common.program import ProgramError

_LEVEL = 0
"""pycaffe's default: it replaces the level in a net's file."""


def check_format(net: NetParameter, file: Path) -> None:
    """Raise ProgramError naming ``file`` if the layers of ``net`` are of Caffe's old format."""
    if net.layers:
        raise ProgramError(
            f"{file}: its layers are of Caffe's old format (layers {{ … }}), expected layer {{ … }}: "
            "convert it with upgrade_net_proto_text"
        )


def for_phase(net: NetParameter, phase: int, file: Path) -> NetParameter:
    """The layers of ``net`` that Caffe makes for the TRAIN or the TEST phase, without their include and exclude rules.

    Caffe must be able to load it. Inputs that are fields of the net, as in older files, become Input layers. Raises
    ProgramError naming ``file`` if its layers are of Caffe's old format.
    """
    check_format(net, file)
    kept = [*_input_layers(net), *(layer for layer in net.layer if _made(layer, phase, net.state))]
    found = NetParameter(name=net.name, layer=kept)
    for layer in found.layer:
        layer.ClearField("include")
        layer.ClearField("exclude")
    return found


def _input_layers(net: NetParameter) -> list[LayerParameter]:
    shapes = list(net.input_shape)
    if net.input_dim:
        shapes = [BlobShape(dim=net.input_dim[i : i + 4]) for i in range(0, len(net.input_dim), 4)]
    return [
        LayerParameter(name=name, type="Input", top=[name], input_param={"shape": [shape]})
        for name, shape in zip(net.input, shapes, strict=False)
    ]  # Caffe drops inputs without a shape


def _made(layer: LayerParameter, phase: int, state: NetState) -> bool:
    if layer.include:
        return any(_met(rule, phase, state) for rule in layer.include)
    return not any(_met(rule, phase, state) for rule in layer.exclude)


def _met(rule: NetStateRule, phase: int, state: NetState) -> bool:
    """Whether a rule is met in a phase, at pycaffe's level and in the stages of ``state``."""
    return (
        (not rule.HasField("phase") or rule.phase == phase)
        and (not rule.HasField("min_level") or rule.min_level <= _LEVEL)
        and (not rule.HasField("max_level") or rule.max_level >= _LEVEL)
        and set(rule.stage) <= set(state.stage)
        and not set(rule.not_stage) & set(state.stage)
    )
