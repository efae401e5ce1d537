"""Latent domains of sources and targets, in the nets read as graphs."""

from dataclasses import replace

import pytest

from latent_domains.experiment.datasets import DATASETS
from latent_domains.models.graph import kind
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import layers


def test_domains_each_branch_decides_about_its_own_rows():
    net = layers(nets_of("office_caltech")[1]["train"])
    assert list(net["w_source"].bottom) == ["domain_fc"] and '"first": 0' in net["w_source"].python_param.param_str
    assert list(net["w_target"].bottom) == ["target_domain_fc"]
    assert '"first": 2' in net["w_target"].python_param.param_str
    assert list(net["w"].bottom) == ["w_source", "w_target"]
    split = next(layer for layer in net.values() if "stem_target" in layer.top)
    assert list(net["target_domain_relu"].bottom) == ["stem_target"]
    rows = sum(net[f"data_{domain}"].data_param.batch_size for domain in ("amazon", "caltech"))
    assert list(split.slice_param.slice_point) == [rows]


@pytest.mark.parametrize("phase", ["test_webcam", "test_dslr", "deploy"])
def test_domains_several_targets_need_their_branch_in_tests_too(phase):
    net = layers(nets_of("office_caltech")[1][phase])
    assert "target_domain_fc" in net and "domain_fc" not in net
    assert {tuple(layer.bottom)[1:] for layer in net.values() if kind(layer) == "MDALayer"} == {("w_target",)}


def test_domains_an_undivided_source_is_one_stream_of_unknown_domains():
    experiment, nets = nets_of("pacs", undivided=True)
    net = layers(nets["train"])
    data = {name: layer.data_param for name, layer in net.items() if layer.type == "Data"}
    assert {name: (p.source, p.batch_size) for name, p in data.items()} == {
        "data_art_painting+cartoon+photo": ("data/pacs/art_painting+cartoon+photo", 36),
        "data_sketch": ("data/pacs/sketch", 12),
    }
    assert experiment.k == 3 and '"num_domains": 4' in net["w_source"].python_param.param_str


def test_domains_equal_classes_are_drawn_by_numbers_of_records_with_their_domain_labels_in_step():
    files = {"amazon": "records/a.txt", "dslr": "records/d.txt"}
    labels = {"amazon": "known/a", "dslr": "known/d"}
    made = {
        method: nets_of("office31", method, equal_classes=True, record_files=files, **options)[1]
        for method, options in (("mda", {"known_share": 0.1, "domain_label_lmdbs": labels}), ("ghost_w", {}))
    }
    for method, nets in made.items():
        data = {name: layer.data_param for name, layer in layers(nets["train"]).items() if layer.type == "Data"}
        for source, file in files.items():
            assert data[f"data_{source}"].records == file
            assert data[f"domain_label_{source}"].records == ("" if method == "ghost_w" else file)
        assert not data["data_webcam"].HasField("records") and "records" not in nets["test"]
    with pytest.raises(ValueError, match=r"record_files: got \[\], expected \['amazon', 'dslr'\]"):
        nets_of("office31", equal_classes=True)


def test_domains_known_domain_labels_are_read_in_step_with_their_images():
    lmdbs = {"amazon": "known/a", "dslr": "known/d"}
    net = layers(nets_of("office31", known_share=0.05, domain_label_lmdbs=lmdbs)[1]["train"])
    for source in lmdbs:
        assert net[f"domain_label_{source}"].data_param.batch_size == net[f"data_{source}"].data_param.batch_size
    assert list(net["w_source"].bottom) == ["domain_fc", "domain_labels"]


def shuffle_seeds(net: str) -> dict[str, int]:
    data = {name: layer.data_param for name, layer in layers(net).items() if layer.type == "Data"}
    return {name: param.shuffle_seed for name, param in data.items() if param.HasField("shuffle_seed")}


def test_domains_each_domain_has_an_order_of_its_own_and_its_domain_labels_the_same():
    labels = {source: f"labels/{source}" for source in ("art_painting", "cartoon", "photo")}
    experiment, nets = nets_of("pacs", known_share=0.05, domain_label_lmdbs=labels)
    seeds = shuffle_seeds(nets["train"])
    images = {domain: seeds.pop(f"data_{domain}") for domain in experiment.batch_inputs}
    assert len(set(images.values())) == 4
    assert seeds == {f"domain_label_{source}": images[source] for source in experiment.sources}
    assert not shuffle_seeds(nets["test"])


def test_domains_methods_of_a_seed_share_the_order_of_the_images():
    orders = {method: shuffle_seeds(nets_of("pacs", method)[1]["train"]) for method in ("dial", "mda", "source_only")}
    assert orders["mda"] == orders["dial"] == orders["source_only"] | {"data_sketch": orders["dial"]["data_sketch"]}
    ghosts, other = (shuffle_seeds(nets_of("pacs", "ghost_w", seed=seed)[1]["train"]) for seed in (0, 1))
    assert orders["dial"].items() < ghosts.items() and len({*ghosts.values(), *other.values()}) == 2 * 7


def test_domains_the_order_of_the_lmdbs_is_stock_caffes():
    assert not shuffle_seeds(nets_of("pacs", data_order="stored")[1]["train"])
    assert not shuffle_seeds(nets_of("digits")[1]["train"])


def test_domains_a_source_called_target_has_another_w_than_the_targets():
    demo = DATASETS["demo"]
    names = ("target", "target_logits")
    data = replace(demo, domains=(*names, "other"), sources=names, targets=("other",))
    counts, tests = (dict(zip(data.domains, sizes.values(), strict=True)) for sizes in (demo.counts, demo.test_counts))
    net = layers(nets_of(replace(data, counts=counts, test_counts=tests), "multi_source")[1]["train"])
    assert list(net["w"].bottom) == ["w_source_target", "w_source_target_logits", "w_target"]
    assert '"first": 2' in net["w_target"].python_param.param_str
