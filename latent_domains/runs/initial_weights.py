"""The weights that a run begins from. Each layer has its own stream of random numbers.

Caffe itself fills all layers from one stream, so that a branch would change the values of every later layer. Here each
stream depends on the seed and the layer's name. Runs of one seed have equal weights in layers of one name and shape.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import caffe
from caffe.proto.caffe_pb2 import BlobShape, LayerParameter, NetParameter
from google.protobuf import text_format

from latent_domains.models.model import open_net
from latent_domains.models.weights import put_values


def draw_weights(nets: Iterable[str], seed: int, file: Path) -> None:
    """Write a caffemodel of all layers of ``nets`` (prototxt texts, with Inputs) that have a filler for weights.

    Layers without one are not in it: they begin as constants.
    """
    drawn = set()
    with TemporaryDirectory() as scratch, file.open("wb") as out:
        net_file = Path(scratch) / "net.prototxt"
        for text in nets:
            for net in _layers_alone(text_format.Parse(text, NetParameter())):
                layer = net.layer[-1]
                if layer.name in drawn:
                    continue
                drawn.add(layer.name)
                net_file.write_text(text_format.MessageToString(net))
                caffe.set_random_seed(_stream(seed, layer.name))
                filled = caffe.Net(str(net_file), caffe.TEST)
                for blob in filled.params[layer.name]:  # Net.save ends the process where the disk is full
                    put_values(blob.data, layer.blobs.add(shape=BlobShape(dim=blob.data.shape)))
                # The bytes of several messages, one after the other, are one message with the layers of all.
                out.write(NetParameter(layer=[layer]).SerializeToString())


def _stream(seed: int, name: str) -> int:
    """Return Caffe's seed (32 bits) for a layer."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:4], "big")


def _layers_alone(net: NetParameter) -> Iterator[NetParameter]:
    """Yield a net of an Input and the layer, for each layer of ``net`` that has a filler for weights."""
    shapes = open_net(net, caffe.TEST).blobs
    for layer in net.layer:
        if layer.convolution_param.HasField("weight_filler") or layer.inner_product_param.HasField("weight_filler"):
            shape = BlobShape(dim=shapes[layer.bottom[0]].shape)
            data = LayerParameter(name="input", type="Input", top=layer.bottom, input_param={"shape": [shape]})
            yield NetParameter(layer=[data, layer])
