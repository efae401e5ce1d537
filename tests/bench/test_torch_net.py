"""PyTorch's nets of the benchmark compute what Caffe's do: losses, scores and gradients."""

import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch

from bench import training
from bench.torch_net import TorchTwin
from latent_domains.models.model import forward, load
from tests.latent_domains.convert.fold.models import DATA, layer, trained
from tests.latent_domains.nets.graphs import parse
from tests.tolerance import rounding

pytestmark = pytest.mark.torch


def blobs_of(net):
    return {name: [blob.data.copy() for blob in blobs] for name, blobs in net.params.items()}


@pytest.mark.program
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", ["digits", "resnet18", "alexnet"])
def test_torch_twin_a_training_step(name, plain):
    definition = training.net_in_memory(with_mda=not plain, **training.settings(name, smallest=True))
    solver = training.make_solver(definition)
    net = solver.net
    rng = np.random.default_rng(1)
    for scale in [each.name for each in definition.layer if each.type == "Scale"]:
        for blob in net.params[scale]:
            blob.data[...] = rng.uniform(0.5, 1.5, blob.data.shape)
    twin = TorchTwin(definition, blobs_of(net), plain=plain)
    tops = [top for each in definition.layer if each.type == "Input" for top in each.top]
    values = {top: torch.from_numpy(net.blobs[top].data.copy()) for top in tops}

    net.clear_param_diffs()
    net.forward()
    net.backward()
    outputs = twin(values)
    twin.loss(outputs).backward()

    assert {"loss_class", "entropy_class", "entropy_domain"} == set(twin.loss_weights)
    for loss in twin.loss_weights:
        assert outputs[loss].item() == pytest.approx(float(net.blobs[loss].data), rel=1e-5)
    assert outputs["source_accuracy"].item() == pytest.approx(float(net.blobs["source_accuracy"].data), abs=0.03)
    children = {layer_name: list(child.parameters()) for layer_name, child in twin.named_children()}
    learned = {layer_name: parameters for layer_name, parameters in children.items() if parameters}
    largest = max(np.linalg.norm(blob.diff) for layer_name in learned for blob in net.params[layer_name])
    terms = sum(one[0].numel() for parameters in learned.values() for one in parameters if one.dim() > 1)
    # Of a rounding ε a share of about ε of the zeros of ReLU and of the maxima move, so √ε of a gradient's norm.
    # Far below the others, a gradient is rounding itself.
    tolerance = math.sqrt(rounding(terms, 1.0))
    compared = 0
    for layer_name, parameters in learned.items():
        for parameter, blob in zip(parameters, net.params[layer_name], strict=True):
            assert parameter.requires_grad == bool(np.abs(blob.diff).max() > 0), layer_name
            if parameter.requires_grad:
                difference = np.linalg.norm(parameter.grad.numpy() - blob.diff)
                assert difference < tolerance * max(np.linalg.norm(blob.diff), 1e-2 * largest), layer_name
                compared += 1
    assert compared > 8


def test_torch_twin_a_convolution_padded_at_the_end_and_a_clip():
    net = parse(
        DATA
        + layer("conv", "Convolution", "data", "y", "convolution_param { num_output: 3 kernel_size: 3 stride: 2 "
                "pad_end: 1 pad_end: 2 weight_filler { type: 'gaussian' } }")
        + layer("clip", "Clip", "y", "y", "clip_param { min: -0.5 max: 0.5 }")
    )  # fmt: skip
    model = trained(net)
    x = np.random.default_rng(0).normal(size=(2, 4, 7, 6)).astype(np.float32)
    expected = forward(load(model), x)["y"]
    with torch.inference_mode():
        found = TorchTwin(net, model.blobs)({"data": torch.from_numpy(x)})["y"]
    assert found.shape == (2, 3, 3, 3) and np.abs(found.numpy() - expected).max() < 1e-5


def test_torch_twin_a_layer_that_is_not_there_is_named():
    net = parse(DATA + layer("odd", "Deconvolution", "data", "y"))
    with pytest.raises(ValueError, match="layer odd: Deconvolution, expected one of"):
        TorchTwin(net, {})
