"""Nets and weights as the authors' fork of Caffe has them, of any number of domains: generated, and small.

The layers and how they go together are those of the fork's nets; the names are such that no rule could know them.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import BlobShape, NetParameter

IMAGES = 28
"""Height and width of the digits net's images."""

PREDICTORS = ("s h", "t h", "guess")
"""Layers that give the logits of a branch."""


class ForkNet:
    """A prototxt of the fork's for both phases, and the shapes of its blobs.

    ``sizes`` are the rows of each source's batch and of the target's; they, the slice point, the lists of images, the
    weights of losses and the number of classes are template fields, whose values are in ``values``.
    """

    def __init__(self, k: int, k_targets: int = 1, sizes: Sequence[int] = (5, 4, 6), size: int = IMAGES) -> None:
        self.k, self.k_targets = k, k_targets
        self.lines = ["# a net with comments"]
        self.shapes: dict[str, list[tuple[int, ...]]] = {}
        self.kinds: dict[str, str] = {}
        self.mda: dict[str, tuple[str, ...]] = {}
        """The normalising layers of each place, in the order of their domains."""
        self.values = {"CLASSES": "10", "POINT": str(sum(sizes[:-1])), "LAMBDA_C": "0.2", "LAMBDA_D": "0.1"}
        self.values.update({f"ROWS{i}": str(rows) for i, rows in enumerate(sizes)})
        self.values.update({f"LIST{i}": f"list {i}.txt" for i in range(len(sizes))})
        self.deployed = {"CLASSES": "10"}
        last = len(sizes) - 1
        for i in range(last + 1):
            self._images(f"d{i}", f"pixels{i}", f"truth{i}", "TRAIN", f"%ROWS{i}%", f"%LIST{i}%", size)
        self._images("dt", "data", "labels", "TEST", "%TEST_ROWS%", "%TEST_LIST%", size)
        rows = "concat_param { axis: 0 }"
        self.layer("all", "Concat", [f"pixels{i}" for i in range(last + 1)], "data", rows, "TRAIN")
        self.layer("truth", "Concat", [f"truth{i}" for i in range(last)], "labels", rows, "TRAIN")
        self.layer("hush", "Silence", f"truth{last}", (), phase="TRAIN")

    @property
    def text(self) -> str:
        """The prototxt."""
        return "\n".join(self.lines) + "\n"

    def weights(self, seed: int) -> dict[str, list[np.ndarray]]:
        """Random blobs for every layer."""
        rng = np.random.default_rng(seed)
        found = {}
        for name, shapes in self.shapes.items():
            if self.kinds[name] in ("BatchNorm", "MultiModalBatchNorm"):
                n = rng.uniform(5, 15)
                values = [n * rng.normal(0, 1, shapes[0]), n * rng.uniform(0.5, 2, shapes[1]), np.full(1, n)]
            elif self.kinds[name] == "Scale":
                values = [rng.uniform(0.5, 1.5, shapes[0]), rng.normal(0, 0.3, shapes[1])]
            else:
                values = [rng.normal(0, np.sqrt(2 / np.prod(s[1:])) if len(s) > 1 else 0.1, s) for s in shapes]
                if name in PREDICTORS:  # for images of pixels: not sure of any domain
                    values[0] *= 0.01
            found[name] = [value.astype(np.float32) for value in values]
        return found

    def layer(
        self,
        name: str,
        kind: str,
        bottom: str | Sequence[str],
        top: str | Sequence[str],
        body: str = "",
        phase: str | None = None,
        shapes: Sequence[tuple[int, ...]] = (),
    ) -> None:
        """Add a layer; ``shapes`` are those of its blobs."""
        bottoms, tops = ([names] if isinstance(names, str) else names for names in (bottom, top))
        self.lines += ["layer {", f'  name: "{name}"', f'  type: "{kind}"']
        self.lines += [f'  bottom: "{blob}"' for blob in bottoms] + [f'  top: "{blob}"' for blob in tops]
        self.lines += [f"  include {{ phase: {phase} }}"] if phase else []
        self.lines += [f"  {body}", "}"]
        if shapes:
            self.shapes[name], self.kinds[name] = list(shapes), kind

    def learned(
        self,
        name: str,
        kind: str,
        bottom: str,
        top: str,
        shape: tuple[int, ...],
        body: str,
        *,
        bias: bool = True,
        phase: str | None = None,
    ) -> None:
        """Add a convolution or an inner product with weights of ``shape``."""
        param = {"Convolution": "convolution_param", "InnerProduct": "inner_product_param"}[kind]
        number = "%CLASSES%" if name == "classifier" or name == "fc5" else shape[0]
        body = f"{param} {{ num_output: {number} bias_term: {str(bias).lower()} {body} }}"
        self.layer(name, kind, bottom, top, body, phase, [shape, *([shape[:1]] if bias else [])])

    def scale(self, name: str, bottom: str, top: str, channels: int, phase: str | None = None) -> None:
        """Add a Scale with bias."""
        self.layer(name, "Scale", bottom, top, "scale_param { bias_term: true }", phase, [(channels,)] * 2)

    def batch_norm(self, name: str, bottom: str, top: str, channels: int, phase: str | None = None) -> None:
        """Add a BatchNorm."""
        body = "batch_norm_param { moving_average_fraction: 0.95 }" + " param { lr_mult: 0 }" * 3
        self.layer(name, "BatchNorm", bottom, top, body, phase, [(channels,), (channels,), (1,)])

    def assigned(self, logits: str, name: str, phase: str, k: int) -> list[str]:
        """Add softmax and slice of a branch's logits; return the columns."""
        self.layer(f"soft {name}", "Softmax", logits, f"p {name}", "", phase)
        columns = [f"{name}{i}" for i in range(k)]
        if k == 1:
            return [f"p {name}"]
        self.layer(f"cut {name}", "Slice", f"p {name}", columns, "slice_param { axis: 1 }", phase)
        return columns

    def domains(self, blob: str, channels: int) -> str:
        """Add everything that normalises ``blob`` by domains, in both phases; return the blob of the result."""
        out = f"{blob} n"
        parts = [f"{blob} s", f"{blob} t"]
        body = "slice_param { axis: 0 slice_point: %POINT% }"
        self.layer(f"part {blob}", "Slice", blob, parts, body, "TRAIN")
        names = self._latent(blob, parts[0], "s", f"{blob} sn", "TRAIN", self.k, channels)
        if self.k_targets > 1:
            names += self._latent(blob, parts[1], "t", f"{blob} tn", "TRAIN", self.k_targets, channels)
            self._latent(blob, blob, "t", out, "TEST", self.k_targets, channels)
        else:
            names.append(f"{blob} bn")
            self.batch_norm(names[-1], parts[1], f"{blob} tn", channels, "TRAIN")
            self.batch_norm(names[-1], blob, out, channels, "TEST")
        self.layer(f"join {blob}", "Concat", [f"{blob} sn", f"{blob} tn"], out, "concat_param { axis: 0 }", "TRAIN")
        self.mda[blob] = tuple(names)
        return out

    def losses(self, scores: str) -> None:
        """Add losses on class scores and the accuracy."""
        body = "slice_param { axis: 0 slice_point: %POINT% }"
        self.layer("part scores", "Slice", scores, ["scores s", "scores t"], body, "TRAIN")
        self.layer("truth loss", "SoftmaxWithLoss", ["scores s", "labels"], "truth loss", "loss_weight: 1", "TRAIN")
        self.layer("doubt", "EntropyLoss", "scores t", "doubt", "loss_weight: %LAMBDA_C%", "TRAIN")
        self.layer("right", "Accuracy", [scores, "labels"], "right", "", "TEST")

    def doubt(self, logits: str, name: str) -> None:
        """Add the entropy of a branch's predictions."""
        self.layer(f"doubt {name}", "EntropyLoss", logits, f"doubt {name}", "loss_weight: %LAMBDA_D%", "TRAIN")

    def _images(self, name: str, top: str, label: str, phase: str, rows: str, images: str, size: int) -> None:
        body = (
            f"transform_param {{ crop_size: {size} mean_value: 104 mean_value: 117 mean_value: 123 }}\n  "
            f'image_data_param {{ batch_size: {rows} source: "{images}" new_height: {size + 4} new_width: {size + 4} }}'
        )
        self.layer(name, "ImageData", (), [top, label], body, phase)

    def _latent(self, blob: str, x: str, w: str, out: str, phase: str, k: int, channels: int) -> list[str]:
        columns = [f"{w}{i}" for i in range(k)] if k > 1 else [f"p {w}"]
        names = [f"{blob} {w} norm {i}" for i in range(k)]
        tops = [f"{blob} {w} of {i}" for i in range(k)] if k > 1 else [out]
        body = "multimodal_batch_norm_param { moving_average_fraction: 0.95 }"
        for name, column, top in zip(names, columns, tops, strict=True):
            shapes = [(channels,), (channels,), (1,)]
            self.layer(name, "MultiModalBatchNorm", [x, column], top, body, phase, shapes)
        if k > 1:
            body = "eltwise_param { operation: SUM " + "coeff: 1 " * k + "}"
            self.layer(f"{blob} {w} sum {phase}", "Eltwise", tops, out, body, phase)
        return names


def digits(k: int, k_targets: int = 1) -> ForkNet:
    """The net of our digits experiment, built as the fork builds nets."""
    n = ForkNet(k, k_targets)
    n.learned("conv1", "Convolution", "data", "conv1", (32, 3, 5, 5), "kernel_size: 5", bias=False)
    n.layer(
        "part stem", "Slice", "conv1", ["stem s", "stem t"], "slice_param { axis: 0 slice_point: %POINT% }", "TRAIN"
    )
    _digits_branch(n, "stem s", "s", "TRAIN", k)
    n.doubt("s logits", "s")
    if k_targets > 1:
        _digits_branch(n, "stem t", "t", "TRAIN", k_targets)
        _digits_branch(n, "conv1", "t", "TEST", k_targets)
        n.doubt("t logits", "t")
    else:
        n.layer("hush stem", "Silence", "stem t", (), phase="TRAIN")
    x = _pooled(n, "1", _normalised(n, "conv1", 32))
    n.learned("conv2", "Convolution", x, "conv2", (48, 32, 5, 5), "kernel_size: 5", bias=False)
    x = _pooled(n, "2", _normalised(n, "conv2", 48))
    for i, columns in ((3, 768), (4, 100)):
        n.learned(f"fc{i}", "InnerProduct", x, f"fc{i}", (100, columns), "", bias=False)
        x = _normalised(n, f"fc{i}", 100)
        n.layer(f"relu{i}", "ReLU", x, x)
    n.learned("fc5", "InnerProduct", x, "fc5", (10, 100), "", bias=False)
    n.losses(_normalised(n, "fc5", 10))
    return n


def residual(k: int, size: int) -> ForkNet:
    """ResNet18 in Caffe's geometry with images of ``size``, built as the fork builds nets: layers work in place."""
    n = ForkNet(k, size=size)
    n.learned("conv1", "Convolution", "data", "conv1", (64, 3, 7, 7), "kernel_size: 7 pad: 3 stride: 2", bias=False)
    n.batch_norm("bn_conv1", "conv1", "conv1", 64)
    n.scale("scale_conv1", "conv1", "conv1", 64)
    n.layer("conv1_relu", "ReLU", "conv1", "conv1")
    n.layer("pool1", "Pooling", "conv1", "pool1", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }")

    def convolved(name: str, x: str, channels: int, columns: int, kernel: int, stride: int, phase: str | None) -> None:
        body = f"kernel_size: {kernel} pad: {kernel // 2} stride: {stride}"
        n.learned(name, "Convolution", x, name, (channels, columns, kernel, kernel), body, bias=False, phase=phase)

    branch = "res2a_wl_source"  # the authors' name: by it the layers of the block are known
    for part, x, stride in (("branch2a", "conv1", 2), ("branch2b", "branch2a n", 1), ("branch1", "conv1", 2)):
        convolved(f"{branch}_{part}", x, 64, 64, 1 if part == "branch1" else 3, stride, "TRAIN")
        n.batch_norm(f"bn2a_wl_source_{part}", f"{branch}_{part}", f"{part} n", 64, "TRAIN")
        n.scale(f"scale2a_wl_source_{part}", f"{part} n", f"{part} n", 64, "TRAIN")
        if part == "branch2a":
            n.layer(f"{branch}_{part}_relu", "ReLU", f"{part} n", f"{part} n", phase="TRAIN")
    n.layer(branch, "Eltwise", ["branch2b n", "branch1 n"], "both", "", "TRAIN")
    n.layer(f"{branch}_relu", "ReLU", "both", "both", phase="TRAIN")
    n.layer("mean", "Pooling", "both", "mean", "pooling_param { pool: AVE global_pooling: true }", "TRAIN")
    n.layer("part mean", "Slice", "mean", ["mean s", "mean t"], "slice_param { axis: 0 slice_point: %POINT% }", "TRAIN")
    n.layer("hush mean", "Silence", "mean t", (), phase="TRAIN")
    n.learned("guess", "InnerProduct", "mean s", "guess", (k, 64), "", phase="TRAIN")
    n.doubt("guess", "s")
    n.assigned("guess", "s", "TRAIN", k)

    x, columns = "pool1", 64
    for stage, channels in ((2, 64), (3, 128), (4, 256), (5, 512)):
        for block in "ab":
            stride = 2 if block == "a" and stage > 2 else 1
            name = f"res{stage}{block}"
            paths = [("branch2a", x, columns, 3, stride), ("branch2b", None, channels, 3, 1)]
            if block == "a":
                paths.append(("branch1", x, columns, 1, stride))
            ends = {}
            for part, start, width, kernel, step in paths:
                layer = f"{name}_{part}"
                convolved(layer, start or ends["branch2a"], channels, width, kernel, step, None)
                ends[part] = n.domains(layer, channels)
                n.scale(f"{layer} scale", ends[part], ends[part], channels)
                if part == "branch2a":
                    n.layer(f"{layer} relu", "ReLU", ends[part], ends[part])
            n.layer(name, "Eltwise", [ends["branch2b"], ends.get("branch1", x)], name)
            n.layer(f"{name}_relu", "ReLU", name, name)
            x, columns = name, channels
    n.layer("pool5", "Pooling", x, "pool5", "pooling_param { pool: AVE global_pooling: true }")
    n.learned("classifier", "InnerProduct", "pool5", "scores", (10, 512), "")
    n.losses("scores")
    return n


def save(net: ForkNet, blobs: dict[str, list[np.ndarray]], folder: Path, *, text: str | None = None) -> list[Path]:
    """Write net.prototxt and net.caffemodel; return their names. ``text``: another prototxt."""
    files = [folder / "net.prototxt", folder / "net.caffemodel"]
    files[0].write_text(net.text if text is None else text)
    stored = NetParameter(name="fork")
    for name, values in blobs.items():
        layer = stored.layer.add(name=name, type=net.kinds.get(name, "Convolution"))
        for value in values:
            layer.blobs.add(shape=BlobShape(dim=value.shape), data=value.ravel())
    files[1].write_bytes(stored.SerializeToString())
    return files


def settings(values: dict[str, str]) -> list[str]:
    """Template fields as a command line has them."""
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


def _digits_branch(n: ForkNet, x: str, name: str, phase: str, k: int) -> None:
    pool = "pooling_param { pool: MAX kernel_size: 2 stride: 2 }"
    n.layer(f"{name} a", "Pooling", x, f"{name} a", pool, phase)
    n.layer(f"{name} b", "ReLU", f"{name} a", f"{name} a", phase=phase)
    n.learned(f"{name} c", "Convolution", f"{name} a", f"{name} c", (48, 32, 5, 5), "kernel_size: 5", phase=phase)
    n.layer(f"{name} d", "Pooling", f"{name} c", f"{name} d", pool, phase)
    n.layer(f"{name} e", "ReLU", f"{name} d", f"{name} d", phase=phase)
    n.learned(f"{name} f", "InnerProduct", f"{name} d", f"{name} f", (100, 768), "", phase=phase)
    n.layer(f"{name} g", "ReLU", f"{name} f", f"{name} f", phase=phase)
    n.learned(f"{name} h", "InnerProduct", f"{name} f", f"{name} logits", (k, 100), "", phase=phase)
    n.assigned(f"{name} logits", name, phase, k)


def _normalised(n: ForkNet, blob: str, channels: int) -> str:
    out = n.domains(blob, channels)
    n.scale(f"scale of {blob}", out, f"{blob} scaled", channels)
    return f"{blob} scaled"


def _pooled(n: ForkNet, number: str, x: str) -> str:
    n.layer(f"pool{number}", "Pooling", x, f"pool{number}", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }")
    n.layer(f"relu{number}", "ReLU", f"pool{number}", f"pool{number}")
    return f"pool{number}"
