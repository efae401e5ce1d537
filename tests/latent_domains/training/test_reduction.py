"""What the processes do with pycaffe's NCCL, whose class here only notes what it is given: no GPU is needed."""

import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import caffe
import pytest

from latent_domains.training.peers import Peers
from latent_domains.training.reduction import NcclReduction


class NotedNccl:
    """Notes solver, identifier and broadcasts."""

    identifier = b"magic\0\2" + bytes(range(121))

    def __init__(self, solver, uid):
        self.solver, self.uid, self.broadcasts = solver, uid, 0

    @classmethod
    def new_uid(cls):
        return cls.identifier

    def bcast(self):
        self.broadcasts += 1


def solver(layer_wise: bool) -> SimpleNamespace:
    callbacks, after = [], []
    return SimpleNamespace(
        param=SimpleNamespace(layer_wise_reduce=layer_wise),
        callbacks=callbacks,
        add_callback=callbacks.append,
        after=after,
        net=SimpleNamespace(after_backward=after.append),
    )


def attach_all(layer_wise: bool) -> list[SimpleNamespace]:
    ends = socket.socketpair()
    with ends[0], ends[1], ThreadPoolExecutor(2) as pool:
        solvers = [solver(layer_wise) for _ in ends]
        reductions = [NcclReduction(Peers(rank, 2, [end])) for rank, end in enumerate(ends)]
        pairs = zip(reductions, solvers, strict=True)
        for future in [pool.submit(reduction.attach, one) for reduction, one in pairs]:
            future.result(timeout=20)
    return solvers


@pytest.mark.parametrize("layer_wise", [True, False])
def test_all_meet_under_the_first_ones_identifier(layer_wise, monkeypatch):
    monkeypatch.setattr(caffe, "NCCL", NotedNccl)
    for one in attach_all(layer_wise):
        (nccl,) = one.callbacks
        assert nccl.solver is one and nccl.broadcasts == 1
        assert nccl.uid == NotedNccl.identifier  # zero bytes and all
        assert one.after == ([nccl] if layer_wise else [])


def test_an_identifier_that_was_cut_is_told(monkeypatch):
    monkeypatch.setattr(caffe, "NCCL", NotedNccl)
    monkeypatch.setattr(NotedNccl, "identifier", b"magic")
    with pytest.raises(RuntimeError, match=r"new_uid\(\) gave 5 bytes, expected 128: .*docker/patches"):
        NcclReduction(Peers(0, 1, [])).attach(solver(True))
    if caffe.has_nccl():
        monkeypatch.undo()
        assert len(caffe.NCCL.new_uid()) == 128
