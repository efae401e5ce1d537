"""Where the time of a digits iteration goes, by ``caffe time``."""

import re
import tempfile
from collections import Counter
from pathlib import Path

from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.caffe_log import failure_reason
from latent_domains.common.caffe_process import Threads, start
from latent_domains.common.program import ProgramError

_LINE = re.compile(r"\]\s+(\S+)\s+(?:forward|backward): ([0-9.e+-]+) ms")


def layer_times(log: str) -> dict[str, float]:
    """Milliseconds of forward and backward together for each layer in the log of ``caffe time``."""
    start = log.find("Average time per layer")
    if start < 0:
        raise ProgramError(f"caffe time printed no average time per layer; it ended with: {log.strip()[-500:]}")
    times: Counter[str] = Counter()
    for name, milliseconds in _LINE.findall(log[start:]):
        times[name] += float(milliseconds)
    return dict(times)


def kind(layer: caffe_pb2.LayerParameter) -> str:
    """What a layer counts as: its type, or for our own layers their class."""
    return layer.python_param.layer if layer.type == "Python" else layer.type


def times_by_kind(net: caffe_pb2.NetParameter, iterations: int, threads: Threads) -> dict[str, float]:
    """Milliseconds of an iteration for each kind of layer, largest first; layers that only hold inputs left out."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "net.prototxt"
        model.write_text(text_format.MessageToString(net))
        with start(["time", "-model", str(model), "-iterations", str(iterations)], threads) as child:
            log = child.stdout.read()
    if child.returncode:
        raise ProgramError(f"caffe time ended with exit code {child.returncode}: {failure_reason(log)}")
    kinds = {layer.name: kind(layer) for layer in net.layer}
    total: Counter[str] = Counter()
    for name, milliseconds in layer_times(log).items():
        # Caffe inserts the Split layers itself.
        total[kinds.get(name, "Split")] += milliseconds
    del total["Input"]
    return dict(total.most_common())
