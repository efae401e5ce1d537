"""What a network's functions take, for type checkers. Nothing is imported when a program runs: all of it lies above."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from caffe.net_spec import NetSpec, Top

    from latent_domains.convert.torch.reference import TorchGraph
    from latent_domains.experiment.experiment import Experiment
else:
    NetSpec = Top = TorchGraph = Experiment = Any

__all__ = ["Experiment", "NetSpec", "Top", "TorchGraph"]
