"""The nets that converted weights come with are the committed ones, but for their heads."""

import pytest
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.common.program import ROOT
from latent_domains.models import prototxt
from latent_domains.nets.blocks import Normalisation
from latent_domains.nets.resnet import DEPTHS, blocks, converted_net


@pytest.mark.parametrize(
    ("file", "normalise"),
    [
        ("pacs_source_only_deploy", Normalisation("bn", 0, 0.95)),
        ("pacs_deploy", Normalisation("mda", 4, 0.95)),
        ("pacs_dial_deploy", Normalisation("mda", 2, 0.95)),
    ],
)
def test_converted_net_is_the_committed_one_up_to_its_features(file, normalise):
    committed = prototxt.read(ROOT / f"prototxt/resnet18/{file}.prototxt", NetParameter())
    assert [layer.name for layer in committed.layer][-2:] == ["classifier", "prob"]
    assert list(converted_net(18, normalise, None).to_proto().layer) == list(committed.layer)[:-2]
    whole = converted_net(18, normalise, 10).to_proto().layer
    assert list(whole)[:-2] == list(committed.layer)[:-2]
    assert [layer.name for layer in whole][-2:] == ["fc10", "prob"]


@pytest.mark.parametrize(("layers", "counts"), [(18, "2222"), (34, "3463"), (50, "3463")])
def test_layers_are_counted_as_their_net_is_called(layers, counts):
    net = converted_net(layers, Normalisation("bn", 0, 0.95), 10).to_proto()
    shortcuts = [layer for layer in net.layer if layer.name.endswith("_branch1") and layer.type == "Convolution"]
    weighted = [layer for layer in net.layer if layer.type in ("Convolution", "InnerProduct")]
    assert len(weighted) - len(shortcuts) == layers and len(shortcuts) == (4 if layers == 50 else 3)
    assert tuple(map(int, counts)) == DEPTHS[layers].blocks
    names = [name for _, _, name in blocks(layers)]
    assert [layer.name for layer in net.layer if layer.type == "Eltwise"] == [f"res{name}" for name in names]
    three = "2b" if layers == 50 else "2a"  # the first 3×3 convolution of a block
    strided = {layer.name for layer in net.layer if list(layer.convolution_param.stride) == [2]}
    assert strided == {"conv1"} | {f"res{stage}a_branch{part}" for stage in "345" for part in ("1", three)}
