import caffe
import numpy as np
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.bench import limit
from latent_domains.models.model import as_file
from tests.latent_domains.convert.fold.models import DATA, layer
from tests.latent_domains.nets.graphs import parse

FROZEN = "param { lr_mult: 0 } "
NET = (
    DATA
    + layer(
        "stem",
        "Convolution",
        "data",
        "stem",
        FROZEN + "convolution_param { num_output: 6 kernel_size: 3 bias_term: false }",
    )
    + layer(
        "conv",
        "Convolution",
        "stem",
        "conv",
        "convolution_param { num_output: 8 kernel_size: 1 group: 2 bias_term: false }",
    )
    + layer("relu", "ReLU", "conv", "conv")
    + layer("fc", "InnerProduct", "conv", "fc", "inner_product_param { num_output: 5 bias_term: false }")
)


def made() -> tuple[caffe.Net, NetParameter]:
    layers = parse(NET)
    layers.layer[0].input_param.shape[0].dim[0] = 10
    with as_file(layers) as file:
        return caffe.Net(str(file), caffe.TRAIN), layers


def test_what_has_a_backward_pass():
    assert limit.learning(*made()) == {"conv": False, "relu": True, "fc": True}


def test_products_are_those_of_each_pass():
    assert limit.products(*made()) == {
        (6, 20, 36): 10,  # stem: 4×3×3 to 6 at 5×4, frozen
        (4, 20, 3): 20,  # conv: forward, two groups
        (4, 3, 20): 20,  # its weights' gradient; nothing learns below it
        (10, 5, 160): 1,
        (5, 160, 10): 1,
        (10, 160, 5): 1,
    }


def test_a_depthwise_convolution_has_no_products():
    layers = parse(
        DATA + layer("dw", "Convolution", "data", "dw", "convolution_param { num_output: 4 group: 4 kernel_size: 3 }")
    )
    with as_file(layers) as file:
        assert not limit.products(caffe.Net(str(file), caffe.TRAIN), layers)


def test_bytes_moved():
    data, stem, conv, fc = 10 * 4 * 7 * 6, 10 * 6 * 20, 10 * 8 * 20, 10 * 5
    passes = [data + stem, 2 * (stem + conv), 5 * conv, 2 * (conv + fc) + conv, data]
    assert limit.moved(*made()) == 4 * sum(passes)


def test_speeds_and_shares_are_measured():
    net, layers = made()
    net.forward()
    assert limit.product_speed((64, 64, 64), 0.01) > 1e6
    shares = limit.shares(net, layers, 1)
    assert {"Convolution, forward", "Convolution, backward", "ReLU, forward"} <= set(shares)
    assert np.all(np.array(list(shares.values())) >= 0)
