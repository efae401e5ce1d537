"""Assignment to domains at test time in stock layers, with the branch that predicts it; without, where all is known."""

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.convert.fold.fold import fold
from tests.latent_domains.convert.fold.models import DATA, layer, mda, trained, tried

SCALE = "scale_param { bias_term: true }"
CONV = layer("x", "Convolution", "data", "x", "convolution_param { num_output: 6 kernel_size: 3 bias_term: false }")
POOLED = layer("c", "Convolution", "data", "c", "convolution_param { num_output: 6 kernel_size: 3 }") + layer(
    "x", "Pooling", "c", "x", "pooling_param { pool: AVE global_pooling: true }"
)
IP = layer("x", "InnerProduct", "data", "x", "inner_product_param { num_output: 6 }")


def assignment(name: str, bottom: str, top: str, domains: int, first: int) -> str:
    python = (
        'python_param { module: "caffe_layers" layer: "DomainAssignmentLayer" '
        f"""param_str: '{{"num_domains": {domains}, "first": {first}}}' }}"""
    )
    return layer(name, "Python", bottom, top, python)


def branch(group: int, domains: int = 4, first: int = 2) -> str:
    logits = layer("logits", "InnerProduct", "data", "logits", f"inner_product_param {{ num_output: {group} }}")
    return logits + assignment("w", "logits", "w", domains, first)


@pytest.mark.parametrize("x", [CONV, IP, POOLED])
@pytest.mark.parametrize("group", [2, 4])
def test_latent_targets_keep_their_branch(x: str, group: int) -> None:
    text = x + branch(group, 4, 4 - group) + mda("mda", "x w", "mda", 4) + layer("scale", "Scale", "mda", "y", SCALE)
    done = tried(trained(DATA + text + layer("relu", "ReLU", "y", "y")))
    assert "logits:InnerProduct w_softmax:Softmax w:InnerProduct" in done.layers
    assert done.layers.endswith("mda:Eltwise relu:ReLU")
    assert "scale:" not in done.layers
    (note,) = done.folded.notes
    assert note.startswith("several target domains: mda need") and note.endswith("so the branch that predicts it stays")
    w = done.before["w"]
    assert done.folded.pairs["w"] == "w" and (w[:, : 4 - group] == 0).all() and w.std() > 0.01


def test_every_row_has_the_map_of_its_own_domains() -> None:
    """By the layer's formula, not by the layer."""
    model = trained(DATA + CONV + branch(2) + mda("mda", "x w", "y", 4))
    done = tried(model)
    mean, variance, divisor = (blob.astype(np.float64) for blob in model.blobs["mda"])
    mean, variance = mean / divisor[:, None], variance / divisor[:, None]
    x, w = done.before["x"], done.before["w"]
    expected = sum(
        w[:, d].reshape(-1, 1, 1, 1)
        * (x - mean[d].reshape(1, -1, 1, 1))
        / np.sqrt(variance[d].reshape(1, -1, 1, 1) + 1e-5)
        for d in range(4)
    )
    np.testing.assert_allclose(done.after["y"], expected, rtol=1e-4, atol=1e-5)


def test_several_normalisations_share_one_assignment() -> None:
    text = CONV + branch(2) + mda("mda1", "x w", "m1", 4) + layer("s1", "Scale", "m1", "s1", SCALE)
    text += layer("fc", "InnerProduct", "s1", "fc", "inner_product_param { num_output: 3 }")
    text += (
        mda("mda2", "fc w", "m2", 4) + layer("bn", "BatchNorm", "m2", "m2") + layer("s2", "Scale", "m2", "m2", SCALE)
    )
    done = tried(trained(DATA + text))
    assert done.layers.count("Softmax") == 1 and "Batch" not in done.layers
    assert "mda1, mda2 need" in done.folded.notes[0]


def test_one_assigned_normalisation_after_another() -> None:
    text = IP + branch(2) + mda("mda1", "x w", "m1", 4) + mda("mda2", "m1 w", "y", 4)
    assert tried(trained(DATA + text)).layers.endswith(
        "mda1:Eltwise mda2_factor:InnerProduct mda2_offset:InnerProduct mda2_scaled:Scale mda2_ones:Scale "
        "mda2_offset_spread:Scale mda2:Eltwise"
    )


def test_empty_statistics_of_domains_that_no_row_is_of_do_not_matter() -> None:
    model = trained(DATA + IP + branch(2) + mda("mda", "x w", "y", 4))
    for blob in model.blobs["mda"]:
        blob[:2] = 0
    assert not any("divisor" in note for note in tried(model).folded.notes)
    for blob in model.blobs["mda"]:
        blob[2] = 0
    assert any("of domain 2 (divisor 0)" in note for note in tried(model).folded.notes)


def test_one_known_domain_takes_the_branch_away() -> None:
    constant = 'dummy_data_param { shape { dim: 3 dim: 1 } data_filler { type: "constant" value: 0 } }'
    text = CONV + layer("zero", "DummyData", "", "zero", constant) + assignment("w", "zero", "w", 4, 1)
    text += mda("mda", "x w", "mda", 4) + layer("scale", "Scale", "mda", "y", SCALE)
    done = tried(trained(DATA.replace("dim: 1 ", "dim: 3 ") + text))
    assert done.layers == "x:Convolution"
    assert done.folded.notes == ()


def test_an_assignment_that_passes_through_other_layers() -> None:
    """Rows of w sliced and joined: nothing is known of their domains then, so all columns count."""
    text = branch(2) + layer("cut", "Slice", "w", "w1 w2", "slice_param { axis: 0 slice_point: 1 }")
    text += layer("joined", "Concat", "w1 w2", "w3", "concat_param { axis: 0 }") + mda("mda", "data w3", "y", 4)
    done = tried(trained(DATA.replace("dim: 1 ", "dim: 3 ") + text))
    assert "cut:Slice joined:Concat" in done.layers and done.layers.endswith("mda:Eltwise")


def test_the_assignment_itself_may_be_an_output() -> None:
    done = tried(trained(DATA + branch(1, 2, 1)))
    np.testing.assert_allclose(done.after["w"], [[0, 1]] * 3)


def test_python_layers_that_stay_are_refused_by_name() -> None:
    batch = mda("mda", "data", "mda", 2, ', "use_global_stats": false')
    expected = r"cannot do the work of: mda \(MDALayer: it normalises by the batch's statistics"
    with pytest.raises(ProgramError, match=expected):
        fold(trained(DATA + batch))
    labels = layer("label", "Input", "", "label", "input_param { shape { dim: 1 } }")
    logits = layer("logits", "InnerProduct", "data", "logits", "inner_product_param { num_output: 2 }")
    text = labels + logits + assignment("w", "logits label", "w", 4, 1)
    entropy = 'python_param { module: "caffe_layers" layer: "EntropyLossLayer" }'
    text += layer("h", "Python", "logits", "h", entropy)
    with pytest.raises(
        ProgramError, match=r"w \(DomainAssignmentLayer: it reads domain labels\); h \(EntropyLossLayer\)"
    ):
        fold(trained(DATA + text))
