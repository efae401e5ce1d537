"""Pools that round down, as pools that round up and are cropped; sizes as Caffe has them."""

import pytest
from caffe.proto.caffe_pb2 import PoolingParameter
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from latent_domains.convert.fold.pooling import pooled_size
from latent_domains.models.model import Model, load
from tests.latent_domains.convert.fold.models import DATA, layer, trained, tried
from tests.latent_domains.nets.graphs import parse


def pool(fields: str) -> str:
    return layer("pool", "Pooling", "data", "pool", f"pooling_param {{ {fields} }}")


CROPPED = {  # of an input of 7×6
    "kernel_size: 3 stride: 2 pad: 1": " pool_columns:Slice silence_pool_columns_rest:Silence",
    "kernel_size: 2 stride: 2": " pool_rows:Slice silence_pool_rows_rest:Silence",
    "kernel_size: 4 stride: 2": " pool_rows:Slice silence_pool_rows_rest:Silence",
    "kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 2": " pool_rows:Slice silence_pool_rows_rest:Silence"
    " pool_columns:Slice silence_pool_columns_rest:Silence",
    "kernel_size: 3 stride: 1 pad: 1": "",
    "global_pooling: true": "",
}


@pytest.mark.parametrize("kind", ["MAX", "AVE"])
@pytest.mark.parametrize("fields", CROPPED)
def test_floor_pools_are_cropped_where_the_sizes_differ(fields: str, kind: str) -> None:
    text = DATA + pool(f"pool: {kind} {fields} round_mode: FLOOR") + layer("relu", "ReLU", "pool", "pool")
    done = tried(trained(text + layer("end", "Power", "pool", "end")), rows=5)
    assert done.layers == f"pool:Pooling{CROPPED[fields]} relu:ReLU end:Power"
    assert done.folded.pairs["pool"] == "pool"
    assert not any(one.pooling_param.HasField("round_mode") for one in done.folded.model.net.layer)


def test_a_mask_of_a_floor_pool_stays_with_it() -> None:
    fields = "pooling_param { kernel_size: 2 stride: 2 round_mode: FLOOR }"
    done = tried(trained(DATA + layer("pool", "Pooling", "data", "pool mask", fields)))
    assert done.layers == "pool:Pooling"
    assert done.folded.model.net.layer[1].pooling_param.round_mode == PoolingParameter.FLOOR


def two(least: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    """For height and width."""
    return st.tuples(st.integers(least, most), st.integers(least, most))


@settings(max_examples=120, deadline=None)
@given(two(3, 20), two(1, 3), two(1, 4), st.data())
def test_sizes_are_caffes(
    sides: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], data: st.DataObject
) -> None:
    pad = [data.draw(st.integers(0, size - 1)) for size in kernel]
    fields = " ".join(
        f"{name}_{axis}: {values[i]}"
        for name, values in (("kernel", kernel), ("stride", stride), ("pad", pad))
        for i, axis in enumerate("hw")
    )
    shape = f"input_param {{ shape {{ dim: 1 dim: 1 dim: {sides[0]} dim: {sides[1]} }} }}"
    net = load(Model(parse(layer("data", "Input", "", "data", shape) + pool(fields)), {}))
    found = pooled_size(text_format.Parse(fields, PoolingParameter()), sides)
    assert tuple(found) == net.blobs["pool"].data.shape[2:]


def test_a_pad_on_one_axis_clips_the_other_too() -> None:
    fields = "kernel_h: 1 kernel_w: 2 stride_h: 3 stride_w: 1 pad_h: 0 pad_w: 1 round_mode: FLOOR"
    done = tried(trained(DATA + pool(fields) + layer("end", "Power", "pool", "end")))
    assert done.layers == "pool:Pooling end:Power"
