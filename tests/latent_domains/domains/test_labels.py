import math

import caffe
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latent_domains.data import lmdb_io
from latent_domains.domains.known import choose_known
from latent_domains.domains.labels import write_domain_labels


def test_caffes_data_layer_gives_them_in_order(tmp_path):
    labels = [0, 1, -1, 2, -1]
    write_domain_labels(tmp_path / "db", labels)
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "d" type: "Data" top: "d" '
        f'data_param {{ source: "{tmp_path / "db"}" batch_size: 3 backend: LMDB }} }}'
    )
    assert lmdb_io.describe(tmp_path / "db").class_counts == {-1: 2, 0: 1, 1: 1, 2: 1}
    blob = caffe.Net(str(net), caffe.TRAIN)
    batches = [blob.forward()["d"].copy() for _ in range(4)]
    assert batches[0].shape == (3, 1, 1, 1)
    assert np.concatenate(batches).ravel().tolist() == [labels[i % 5] for i in range(12)]


COUNTS = st.lists(st.integers(0, 300), min_size=1, max_size=5)
SHARES = st.floats(0, 1)
SEEDS = st.integers(0, 2**32)


@given(COUNTS, SHARES, SEEDS)
def test_every_domain_keeps_its_rounded_share(counts, share, seed):
    masks = choose_known(counts, share, seed)
    assert [len(mask) for mask in masks] == counts
    assert [int(mask.sum()) for mask in masks] == [math.floor(share * n + 0.5) for n in counts]
    assert all(np.array_equal(a, b) for a, b in zip(masks, choose_known(counts, share, seed), strict=True))


@given(COUNTS, SHARES, SHARES, SEEDS)
def test_a_larger_share_keeps_who_was_known(counts, a, b, seed):
    for less, more in zip(*(choose_known(counts, share, seed) for share in sorted((a, b))), strict=True):
        assert not (less & ~more).any()


def test_each_domain_and_each_seed_has_a_choice_of_its_own():
    assert len({mask.tobytes() for seed in (0, 1) for mask in choose_known([70, 70], 0.5, seed)}) == 4


@given(SHARES, SEEDS)
def test_a_domain_is_chosen_by_itself(share, seed):
    assert np.array_equal(choose_known([40, 70], share, seed)[1], choose_known([9, 70], share, seed)[1])
