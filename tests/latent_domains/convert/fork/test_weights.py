"""Weights of another net, of another fork or damaged ones are refused by the names of their layers."""

from pathlib import Path

import caffe
import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.converter import Conversion
from latent_domains.convert.fork.verify import with_inputs
from latent_domains.convert.fork.weights import converted, read_blobs
from latent_domains.models.model import as_file
from tests.latent_domains.convert.fork.fork_nets import digits, save

NET = digits(2)


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> tuple[Conversion, list[caffe.Net]]:
    """The net of two latent sources as it is read, and its layers with parameters in Caffe."""
    folder = tmp_path_factory.mktemp("fork")
    read = Conversion(save(NET, {}, folder)[0], NET.values)
    graphs = [with_inputs(read.train, read.images.shape), read.deploy]
    nets = []
    for graph in graphs:
        with as_file(graph.definition()[0]) as file:
            nets.append(caffe.Net(str(file), caffe.TEST))
    return read, nets


def test_converted_statistics_of_the_domains_are_rows_in_their_order(fork, tmp_path: Path) -> None:
    read, nets = fork
    blobs = NET.weights(0)
    found = read_blobs(save(NET, blobs, tmp_path)[1], nets)
    assert {name: [value.tobytes() for value in values] for name, values in found.items()} == {
        name: [value.tobytes() for value in values] for name, values in blobs.items()
    }
    ours = converted(found, read.groups, read.names)
    for place, norms in NET.mda.items():
        mean, variance, divisor = ours[f"{place}_mda"]
        for row, name in enumerate(norms):
            np.testing.assert_array_equal(mean[row], blobs[name][0])
            np.testing.assert_array_equal(variance[row], blobs[name][1])
            assert divisor[row] == blobs[name][2][0]
        np.testing.assert_array_equal(ours[f"{place}_scale"][1], blobs[f"scale of {place}"][1])
    assert len(ours) == len(blobs) - sum(len(norms) - 1 for norms in NET.mda.values())


def changed(**layers: list[np.ndarray] | None) -> dict[str, list[np.ndarray]]:
    """Weights of the net in which some layers are others, or missing."""
    blobs = {**NET.weights(0), **{name.replace("_", " "): values for name, values in layers.items()}}
    return {name: values for name, values in blobs.items() if values is not None}


def averages() -> list[np.ndarray]:
    mean, variance, divisor = NET.weights(0)["fc3 s norm 1"]
    return [mean / divisor, variance / divisor, np.zeros(1, np.float32)]


@pytest.mark.parametrize(
    ("blobs", "message"),
    [
        (digits(3).weights(0), "blob 0 of layer s h is 3×100, expected 2×100"),
        (changed(fc3_s_norm_1=None, fc4=None), "it has no fc3 s norm 1, fc4, expected"),
        (changed(fc5=[np.zeros((7, 100), np.float32)]), "blob 0 of layer fc5 is 7×100, expected 10×100"),
        ({**digits(3).weights(0), "s h": NET.weights(0)["s h"]}, "found conv1 s norm 2, conv2 s norm 2, fc3 s"),
        (changed(spare=[np.zeros(1, np.float32)]), "found spare, which the net lacks"),
        (changed(fc4=[np.full((100, 100), np.nan, np.float32)]), "blob 0 of layer fc4 holds values that are not"),
        (changed(fc3_s_norm_1=averages()), "layer fc3 s norm 1 has statistics and a divisor of 0, .* the"),
        (changed(fc3_bn=[np.ones(100, np.float32)] * 5), "layer fc3 bn has 5 blobs, expected 3"),
    ],
    ids=["k", "missing", "classes", "domains", "extra", "nan", "older fork", "older fork's BN"],
)
def test_read_blobs_other_weights_are_refused(
    blobs: dict[str, list[np.ndarray]], message: str, fork, tmp_path: Path
) -> None:
    _, nets = fork
    with pytest.raises(ProgramError, match=message) as error:
        read_blobs(save(NET, blobs, tmp_path)[1], nets)
    assert "net.caffemodel: " in str(error.value)


def test_read_blobs_a_domain_that_never_had_images_is_read(fork, tmp_path: Path) -> None:
    _, nets = fork
    zeros = [np.zeros(shape, np.float32) for shape in NET.shapes["fc3 s norm 1"]]
    found = read_blobs(save(NET, changed(fc3_s_norm_1=zeros), tmp_path)[1], nets)
    assert not any(value.any() for value in found["fc3 s norm 1"])
