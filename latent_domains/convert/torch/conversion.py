"""Convert, compare and write a checkpoint's net: the net itself, and weights that mDA nets begin with.

PyTorch's input is R, G, B from 0 to 1, less a mean and over a standard deviation, x = (p/255 - m)/s, and so is the zero
that conv1 pads with. Caffe's is B, G, R from 0 to 255, less a mean M and times a scale c, with zeros around it. So
conv1's channels change their order and are multiplied by σ/s, where σ is the mean of s. Its output is then k = 255·σ·c
times PyTorch's, so are the mean and the deviation in its BN. This is exact where M = 255·m. With another M, conv1 gives
Σ W c (255·m - M) too much: the mean of its BN, raised by as much, subtracts it again. Only at the border of the image
something remains, since what is padded with zeros is then M and no longer 255·m. A net whose input is B, G, R, as
CNTK's, keeps the order of its channels.

k stays out of conv1's weights, since BN makes their scale meaningless: k times smaller weights would have k times
larger gradients, and each step of training would change them k² times (some 3,300) as much as in PyTorch.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from caffe import NetSpec
from caffe import layers as L
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.files import check_free, json_text, read_json, sha256, write_text
from latent_domains.common.program import ProgramError
from latent_domains.common.validation import checked
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch.read import Checkpoint, read_checkpoint
from latent_domains.convert.torch.reference import OwnNet, TorchNet, torch_net
from latent_domains.data.image_list import printable
from latent_domains.data.preprocessing import Transform
from latent_domains.experiment.datasets import input_of
from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.networks import published
from latent_domains.models.compare import Difference, differences, in_batches, keep_worst, require, tried, worst
from latent_domains.models.model import Array, Model, forward, load, model_files, weights_bytes, write_model
from latent_domains.models.onnx_file import contents_sha256
from latent_domains.networks.blocks import GAUSSIAN, Normalisation, inner_product
from latent_domains.networks.network import STATISTICS, Network, Pretrained, Standardisation, converted_name


@dataclass(frozen=True)
class Converted:
    """A net in Caffe, and its input."""

    model: Model
    pixels: Transform


def verify(reference: TorchNet | OwnNet, nets: Mapping[Path, Converted], pixels: Array, inputs: str) -> None:
    """Run the checkpoint's net and Caffe's on pixels (N×3×H×W; B, G, R, 0 to 255) and print how they agree.

    ``nets`` are the net itself and those with mDA, by the files for their weights; ``inputs`` names the pixels. The
    checkpoint's net gets images padded with Caffe's mean. Refuses a net that differs.
    """
    file, *mda_files = nets
    loaded = {name: load(net.model) for name, net in nets.items()}
    rows: dict[Path, dict[str, Difference]] = {name: {} for name in nets}
    same, head = 0, reference.head
    for batch in tqdm(in_batches(pixels), desc="compared with the checkpoint's net", unit="batch"):
        expected: dict[Sequence[float], dict[str, Array]] = {}
        for name, net in nets.items():
            mean = net.pixels.mean
            if mean not in expected:
                expected[mean] = reference.run(batch, border=mean)
            found = forward(loaded[name], net.pixels(batch))
            compared = {blob: found[blob] for blob in expected[mean] if name == file or blob != head}
            keep_worst(rows[name], differences(expected[mean], compared))
            if name == file and head:
                same += int((expected[mean][head].argmax(axis=1) == found[head].argmax(axis=1)).sum())
    for name, of_net in rows.items():
        require(name, list(of_net.values()))
    blobs, furthest = list(rows[file]), worst(list(rows[file].values()))
    best = f"; the best class is the same for {same} of {len(pixels)}" if head else ""
    print(
        f"compared with the checkpoint's own net on {inputs}: of {len(blobs)} blobs from {blobs[0]} to {blobs[-1]} "
        f"{furthest.name} differs most, by {furthest.relative:.1e} of its largest value{best}"
    )
    for name in mda_files:
        mean, furthest = numbers(nets[name].pixels.mean), worst(list(rows[name].values()))
        print(f"{name.name}, on images padded with {mean}: {furthest.name} differs most, by {furthest.relative:.1e}")


def numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


_TRAINED = make_experiment("pacs", "mda")
"""Converted nets have the geometry and the moving averages of the nets that the weights are for."""


def usual_pixels(network: Network, standardisation: Standardisation) -> Transform:
    """Return the input with which a checkpoint's own net is exact in Caffe.

    That is the network's, or pixels minus the checkpoint's mean.
    """
    return network.pixels.transform if network.pixels else Transform(standardisation.caffe_mean)


def caffe_model(net: Checkpoint, standardisation: Standardisation, pixels: Transform, num_domains: int = 0) -> Model:
    """Return a net for Caffe whose input is ``pixels``: the checkpoint's own, with BN and, if it has one, the head.

    With ``num_domains`` it ends in the features, and mDA replaces every BN but conv1's: each domain begins with the
    checkpoint's statistics.
    """
    known, layer, classes = net.network.torch, "bn", net.classes
    if num_domains:
        layer, classes = "mda", None
    blobs: dict[str, list[Array]] = {}
    for unit in known.units:
        weights = net.values[f"{unit.convolution}.weight"]
        gamma, beta, mean, variance = (net.values[f"{unit.bn}.{statistic}"] for statistic in STATISTICS)
        if unit is known.units[0]:
            factor = 255 * float(np.mean(standardisation.std)) * pixels.scale
            weights = for_caffes_pixels(weights, standardisation)
            larger = factor**2 * (variance.astype(np.float64) + known.eps) - known.eps
            moved = factor * mean.astype(np.float64) + surplus(weights, standardisation, pixels)
            norm, statistics = "bn", bn_blobs(moved.astype(np.float32), larger.astype(np.float32))
        else:
            norm, statistics = layer, bn_blobs(mean, variance, num_domains)
        blobs[unit.name] = [weights]
        blobs[unit.norm.format(layer=norm)] = statistics
        blobs[unit.norm.format(layer="scale")] = [gamma, beta]
    if classes is not None:
        blobs[f"fc{classes}"] = [net.values[f"{known.classifier}.{part}"] for part in ("weight", "bias")]
    definition = converted_net(net.network, layer, num_domains, classes).to_proto()
    definition.name = f"{net.network.name}_{layer}" if num_domains else net.network.name
    if net.own:
        definition.layer[0].input_param.shape[0].dim[2:] = net.own.size
    return Model(definition, blobs)


def converted_net(network: Network, layer: str, num_domains: int, classes: int | None) -> NetSpec:
    """Return a network as its weights come from PyTorch, normalised by ``layer``: the deploy net of no experiment.

    conv1 keeps a plain BN. With ``classes`` it ends in their probabilities, and its head has their number in its name
    (fc1000), unlike an experiment's classifier; without, it ends in the features.
    """
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, *input_of(network).shape]})
    normalise = Normalisation(layer, num_domains, _TRAINED.recipe.moving_average_fraction)
    x = network.features(n, network.stem(n, n.data, _TRAINED), normalise, _TRAINED)
    if classes is not None:
        n.prob = L.Softmax(inner_product(n, f"fc{classes}", x, classes, bias=True, filler=GAUSSIAN))
    return n


def bn_blobs(mean: Array, variance: Array, num_domains: int = 0) -> list[Array]:
    """Return sums of means and of variances and their divisors: of Caffe's BN or of mDA, the same for each domain."""
    if not num_domains:
        return [mean, variance, np.ones(1, np.float32)]
    return [*(np.tile(row, (num_domains, 1)) for row in (mean, variance)), np.ones(num_domains, np.float32)]


def for_caffes_pixels(weights: Array, standardisation: Standardisation) -> Array:
    """Return the first convolution (filters×3×h×w) for B, G, R, whose deviations are all the mean of theirs."""
    scale = np.mean(standardisation.std) / np.array(standardisation.std[::-1])
    in_order = weights if standardisation.channels == "BGR" else weights[:, ::-1]
    return (in_order * scale.reshape(1, 3, 1, 1)).astype(np.float32)


def surplus(weights: Array, standardisation: Standardisation, pixels: Transform) -> NDArray[np.float64]:
    """Return the error of conv1's outputs (filters) inside the image, if its input has another mean."""
    per_channel = weights.astype(np.float64).sum(axis=(2, 3))
    return pixels.scale * per_channel @ (np.array(standardisation.caffe_mean) - np.array(pixels.mean))


def convert(
    checkpoint: Path,
    out: Path,
    options: ConverterOptions,
    *,
    head: bool,
    num_domains: Sequence[int],
    mean: tuple[float, float, float] | None = None,
    std: tuple[float, float, float] | None = None,
    channels: Literal["RGB", "BGR"] | None = None,
    prefix: str | None = None,
    network: Network | None = None,
) -> None:
    """Read, convert, compare, and write OUT.prototxt and OUT.caffemodel; print how far they agree.

    ``head``: whether the net keeps its classifier. OUT_mdaD.caffemodel is written, too, for each D of ``num_domains``,
    source and target together. ``mean``, ``std`` and ``channels`` are the standardisation (None: that of published
    weights, else the network's usual one). ``prefix`` is the net's place in a training checkpoint (None: the only one).
    Refuses a checkpoint of another net than ``network`` (None: any known one), and a result that differs.
    """
    net_file, weights_file = model_files(out)
    mda_files = {number: converted_file(out, number) for number in num_domains}
    files = (net_file, weights_file, *mda_files.values())
    check_free(*files, force=options.force, inputs=[checkpoint])
    net = read_checkpoint(checkpoint, head=head, prefix=prefix)
    found, weights = net.network, published(checkpoint)
    if network is not None and network.name not in (found.name, weights and weights.network):
        raise ProgramError(f"{checkpoint}: the weights of {found.title}, expected those of {network.title}")
    chosen = {"mean": mean, "std": std, "channels": channels}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if found.pixels and chosen:
        raise ProgramError(f"{checkpoint}: {found.title}, whose input is fixed: omit --mean, --std and --channels")
    standardisation = replace(standardisation_of(net.network, weights), **chosen)
    form, shape = input_of(found), net.own.size if net.own else input_of(found).shape[1:]
    mda_pixels = form.transform
    pixels = usual_pixels(found, standardisation)
    times = f", times {pixels.scale:g}." if found.pixels else ". Zeros around it are that mean, as in Torch."
    needs = f"less {'' if found.pixels else 'the mean '}{numbers(pixels.mean)}{times}"
    print(f"{checkpoint}: {found.title}, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in (*net.notes, *([weights.note] if weights and weights.note else [])):
        print(f"note: {note}")
    nets = {weights_file: Converted(caffe_model(net, standardisation, pixels), pixels)}
    for number, file in mda_files.items():
        nets[file] = Converted(caffe_model(net, standardisation, mda_pixels, number), mda_pixels)
    if options.verify:
        images, inputs = tried((3, *shape), options.images)
        rebuilt = torch_net(net, standardisation)
        verify(OwnNet(net.own, rebuilt) if net.own else rebuilt, nets, images, inputs)
    else:
        print("not verified")
    name = printable(Path(checkpoint.name))
    about = f"Input: B, G, R from 0 to 255 {needs}\n{found.title} of {name}, by python -m tools.convert_torch."
    beside = {file: weights_bytes(nets[file].model) for file in mda_files.values()}
    write_model(nets[weights_file].model, out, about=about, force=options.force, beside=beside)
    print(f"wrote {', '.join(map(str, files))}")


def standardisation_of(network: Network, weights: Pretrained | None) -> Standardisation:
    """Return the pixels that a checkpoint takes: those of published ``weights``, else the network's usual ones."""
    return (weights and weights.standardisation) or network.torch.standardisation


def converted_file(out: Path, num_domains: int) -> Path:
    """Return the caffemodel that nets of this many domains begin from (0: without mDA)."""
    return out.with_name(converted_name(out.name, num_domains))


@dataclass(frozen=True)
class _Noted:
    """The note about a caffemodel: its hash, and that of the checkpoint from which it was made."""

    sha256: str
    checkpoint: str


def convert_once(
    network: Network, checkpoint: Path, out: Path, num_domains: Sequence[int], *, force: bool = False
) -> None:
    """Make OUT's caffemodels that a network's nets of these numbers of domains begin from (0: without mDA).

    They have no classifier. Existing ones that were made from this checkpoint are kept. Others are replaced, after a
    comparison with the checkpoint's own net. ``force`` also replaces one that was changed since it was made.
    """
    of, noted = contents_sha256(checkpoint), _noted(out)
    wanted = [converted_file(out, number) for number in num_domains]
    if all([file.name in noted and is_made_of(file, out, of, force=force) for file in wanted]):
        return
    files = [converted_file(out, number) for number in dict.fromkeys((0, *num_domains))]  # that without mDA comes too
    for file in files:
        if file.is_file() and file.name not in noted and not force:
            remedy = "move it away, or pass --force of tools.get_weights"
            raise ProgramError(f"{file}: no note beside it says what it was made of: {remedy}")
    numbers, options = [number for number in num_domains if number], ConverterOptions(force=True)
    convert(checkpoint, out, options, head=False, num_domains=numbers, network=network)
    ours = {file.name: _Noted(sha256(file), of) for file in files}
    with suppress(OSError):  # of a folder that is only read
        write_text(_note(out), json_text({name: asdict(one) for name, one in {**noted, **ours}.items()}))


def is_made_of(file: Path, out: Path, checkpoint: str, *, force: bool = False) -> bool:
    """Say whether ``file``, one of OUT's caffemodels, exists and, by its note, was made from this ``checkpoint``.

    ``checkpoint`` is a hash. Refuses a file that was changed since; with ``force`` the answer is no.
    """
    noted = _noted(out).get(file.name)
    if not file.is_file() or noted is None:
        return file.is_file()
    if noted.sha256 != (found := sha256(file)):
        if force:
            return False
        raise ProgramError(
            f"{file}: sha256 {found}, expected {noted.sha256} as when it was converted: remove it, or pass --force of "
            "tools.get_weights"
        )
    return noted.checkpoint == checkpoint


def _note(out: Path) -> Path:
    return out.with_name(f"{out.name}.converted.json")


def _noted(out: Path) -> dict[str, _Noted]:
    """Return the notes about OUT's caffemodels, by their names."""
    note = _note(out)
    return checked(dict[str, _Noted], read_json(note), str(note)) if note.is_file() else {}
