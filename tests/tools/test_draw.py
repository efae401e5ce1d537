"""Pictures of nets."""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from caffe.proto import caffe_pb2

from latent_domains.common.program import ROOT
from latent_domains.models.allowed import DATA, read_net
from latent_domains.models.drawing import COLOURS, draw
from latent_domains.models.prototxt import for_phase
from tests.programs import names, program
from tools.draw import DOCS

SMALL = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "stem" type: "Convolution" bottom: "data" top: "stem" param { lr_mult: 0 }
        convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "stem_relu" type: "ReLU" bottom: "stem" top: "stem" }
layer { name: "domains" type: "InnerProduct" bottom: "stem" top: "domains" inner_product_param { num_output: 2 } }
layer { name: "w" type: "Python" bottom: "domains" top: "w"
        python_param { module: "caffe_layers" layer: "DomainAssignmentLayer" param_str: '{"num_domains": 2}' } }
layer { name: "scores" type: "InnerProduct" bottom: "stem" top: "scores" inner_product_param { num_output: 5 } }
layer { name: "scores_mda" type: "Python" bottom: "scores" bottom: "w" top: "scores_mda"
        python_param { module: "caffe_layers" layer: "MDALayer" param_str: '{"num_domains": 2}' } }
layer { name: "dropout" type: "Dropout" bottom: "scores_mda" top: "scores_mda" include { phase: TRAIN } }
layer { name: "halves" type: "Slice" bottom: "scores_mda" top: "half_a" top: "half_b" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "half_a" bottom: "label" top: "loss" include { phase: TRAIN } }
layer { name: "entropy" type: "Python" bottom: "half_b" top: "entropy" loss_weight: 0.5
        python_param { module: "caffe_layers" layer: "EntropyLossLayer" } }
layer { name: "prob" type: "Softmax" bottom: "half_a" top: "prob" include { phase: TEST } }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.prototxt"
    path.write_text(SMALL)
    return path


SVG = "{http://www.w3.org/2000/svg}"


def groups(svg: bytes, kind: str) -> list[tuple[str, list[str]]]:
    """Every node or edge: graphviz's name of it, and what is written on it."""
    root = ElementTree.fromstring(svg)  # noqa: S314
    return [
        (group.findtext(f"{SVG}title") or "", [words for text in group.iter(f"{SVG}text") if (words := _words(text))])
        for group in root.iter(f"{SVG}g")
        if group.get("class") == kind
    ]


def _words(text: ElementTree.Element) -> str:
    return (text.text or "").strip()


def boxes(svg: bytes) -> list[list[str]]:
    """What is written on each box and ellipse."""
    return [words for _, words in groups(svg, "node")]


def arrows(svg: bytes) -> set[tuple[str, ...]]:
    """The first words of the boxes at the ends of every arrow, and its own if it has any."""
    first = {name: words[0] for name, words in groups(svg, "node")}
    return {(*(first[end] for end in name.split("->")), *words) for name, words in groups(svg, "edge")}


def test_draw_every_layer_is_there_with_its_class_and_what_matters_of_it(small, tmp_path):
    done = program("draw", small, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"wrote {tmp_path / 'out' / 'small.svg'}\n"
    svg = (tmp_path / "out" / "small.svg").read_bytes()
    assert sorted(boxes(svg)) == sorted(
        [
            ["data", "(Input)"],
            ["label", "(Input)"],
            ["label"],
            [
                *("stem", "(Convolution)", "num_output: 4 kernel_size: 3, frozen"),
                *("stem_relu", "(ReLU)"),
            ],
            ["domains", "(InnerProduct)", "num_output: 2"],
            ["w", "(DomainAssignmentLayer)", "num_domains: 2"],
            ["w"],
            [
                *("scores", "(InnerProduct)", "num_output: 5"),
                *("w →", "scores_mda", "(MDALayer)", "num_domains: 2"),
                *("dropout", "(Dropout)"),
            ],
            ["halves", "(Slice)"],
            ["label →", "loss", "(SoftmaxWithLoss)"],
            ["entropy", "(EntropyLossLayer)", "weight: 0.5"],
        ]
    )
    assert arrows(svg) == {
        ("data", "stem"),
        ("stem", "domains"),
        ("stem", "scores"),
        ("domains", "w"),
        ("scores", "halves"),
        ("halves", "label →", "half_a"),
        ("halves", "entropy", "half_b"),
        ("label", "label"),
        ("w", "w"),
    }


def test_draw_colours_tell_the_parts_apart_on_white(small):
    svg = draw(for_phase(read_net(small, DATA), caffe_pb2.TRAIN, small)).decode()
    assert '<polygon fill="white"' in svg
    count = Counter(re.findall(r'<polygon fill="(#\w{6})" stroke="transparent"', svg))
    expected = {"data": 2, "weights": 2, "mda": 1, "branch": 1, "assignment": 1, "loss": 2}
    assert {role: count[COLOURS[role].lower()] for role in expected} == expected


def test_draw_the_tests_phase_the_same_bytes_again_and_nothing_left_beside(small, tmp_path):
    for image_format in ("svg", "png"):
        command = ("draw", small, "--out", tmp_path / "out", "--format", image_format, "--phase", "test")
        picture = tmp_path / "out" / f"small.{image_format}"
        assert program(*command).returncode == 0
        first = picture.read_bytes()
        assert program(*command).returncode == 0
        assert picture.read_bytes() == first
    assert first.startswith(b"\x89PNG")
    assert names(tmp_path / "out") == ["small.png", "small.svg"]
    svg = (tmp_path / "out" / "small.svg").read_bytes()
    words = {word for box in boxes(svg) for word in box}
    assert "prob" in words and not words & {"loss", "dropout"} and ("halves", "prob", "half_a") in arrows(svg)


def test_draw_names_of_any_characters(tmp_path):
    net = tmp_path / "odd.prototxt"
    net.write_text(
        r"""
        input: "x:0"  input_dim: 1  input_dim: 1
        layer { name: "<b>&\"q\"\\n" type: "Slice" bottom: "x:0" top: "node" top: "s\\n" }
        layer { name: "twin" type: "Eltwise" bottom: "node" bottom: "s\\n" top: "e" }
        layer { name: "twin" type: "Python" bottom: "e" top: "e"
                python_param { module: "caffe_layers" layer: "EntropyLossLayer" param_str: "no JSON" } }
        """
    )
    svg = draw(read_net(net, DATA))
    assert arrows(svg) == {
        ("x:0", '<b>&"q"\\n'),
        ('<b>&"q"\\n', "twin", "node"),
        ('<b>&"q"\\n', "twin", "s\\n"),
        ("twin", "twin"),
    }


def test_draw_other_errors_are_one_line(small, tmp_path, monkeypatch):
    only = tmp_path / "only.prototxt"
    only.write_text('name: "only" layer { name: "a" type: "Input" top: "a" include { phase: TEST } }')
    (tmp_path / "other").mkdir()
    twin = small.rename(tmp_path / "other" / "only.prototxt")
    dot = tmp_path / "dot"
    for nets, script, message in (
        ((only, twin), "", f"{only}, {twin}: expected distinct file names, each names its picture"),
        ((twin,), "", "found no program dot on PATH: install Debian's package graphviz"),
        ((twin,), "#!/bin/sh\necho no room >&2\nexit 3\n", "dot ended with 3: no room"),
    ):
        if script:
            dot.write_text(script)
            dot.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        done = program("draw", *nets, "--out", tmp_path / "out")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {message}\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("net", DOCS)
def test_draw_docs_show_the_nets_as_they_are(net):
    """Where each word stands is graphviz's and the fonts' affair; the words are the net's."""
    path = ROOT / "docs/nets" / f"{Path(net).stem}.svg"
    assert f"](nets/{path.name})" in (ROOT / "docs/nets.md").read_text()
    committed = path.read_bytes()
    fresh = draw(read_net(ROOT / net, DATA))
    words = [Counter(" ".join(ElementTree.fromstring(svg).itertext()).split()) for svg in (committed, fresh)]  # noqa: S314
    assert words[0] == words[1], "run python -m tools.draw"
    assert len(committed) < 150_000
