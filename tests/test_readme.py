"""The prototxt of the pages works as printed, links lead somewhere, and some lead to each page."""

import re
from pathlib import Path

import caffe
import numpy as np
import pytest

from latent_domains.common.program import ROOT
from tests.pages import PAGES

INPUTS = """
layer { name: "inputs" type: "Input" top: "conv1" top: "domain_logits" top: "constant_logits" top: "scores_target"
        input_param { shape { dim: 6 dim: 4 dim: 5 dim: 5 } shape { dim: 4 dim: 2 } shape { dim: 2 dim: 1 }
                      shape { dim: 2 dim: 10 } } }
"""


def links(page: Path) -> list[str]:
    """What a page's links and pictures name, but for other places' pages."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_readme_links_lead_somewhere(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_readme_the_readme_leads_to_every_page():
    reached, new = set(), [ROOT / "README.md"]
    while new:
        page = new.pop()
        reached.add(page)
        named = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        new += [other for other in PAGES if other in named - reached]
    assert set(PAGES) == reached


def prototxt_of(page: str) -> str:
    """The page's block of layers."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    return next(block for block in blocks if "MDALayer" in block)


def test_readme_the_layers_of_the_pages_run_in_caffe(tmp_path):
    prototxt = prototxt_of("docs/layers.md")
    assert prototxt_of("README.md") in prototxt
    file = tmp_path / "net.prototxt"
    file.write_text("force_backward: true" + INPUTS + prototxt)
    net = caffe.Net(str(file), caffe.TRAIN)
    rng = np.random.default_rng(0)
    for name in ("conv1", "domain_logits", "scores_target"):
        net.blobs[name].data[...] = rng.normal(3, 2, net.blobs[name].shape)
    entropy = float(net.forward()["entropy_class"])
    assert 0 < entropy < np.log(10)
    target = net.blobs["conv1_scale"].data[4:]  # the target's rows are normalised by themselves
    np.testing.assert_allclose(target.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(target.var(axis=(0, 2, 3)), 1, atol=1e-4)
    net.blobs["conv1_scale"].diff[...] = rng.normal(size=net.blobs["conv1_scale"].shape)
    net.backward()
    assert np.abs(net.blobs["domain_logits"].diff).max() > 0
