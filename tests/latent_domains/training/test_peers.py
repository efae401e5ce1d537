from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from types import SimpleNamespace

import caffe
import numpy as np
import pytest

from latent_domains.training.peers import NcclReduction, Peers


@pytest.fixture(params=[1, 2, 3])
def peers(request):
    """All the processes of a run, in one."""
    size = request.param
    pairs = [Pipe() for _ in range(size - 1)]
    yield [Peers(0, [pair[0] for pair in pairs]), *(Peers(i + 1, [p[1]]) for i, p in enumerate(pairs))]
    for pair in pairs:
        for end in pair:
            end.close()


def together(peers, work):
    """What ``work(peer)`` returns for each of them, called at the same time."""
    with ThreadPoolExecutor(len(peers)) as pool:
        return [future.result(timeout=20) for future in [pool.submit(work, peer) for peer in peers]]


def test_one_true_flag_is_enough(peers):
    for told in range(len(peers)):
        assert together(peers, lambda peer, told=told: peer.any(peer.rank == told)) == [True] * len(peers)
    assert together(peers, lambda peer: peer.any(False)) == [False] * len(peers)


def test_means_are_the_same_to_the_bit(peers):
    rng = np.random.default_rng(0)
    # The first is larger than what a pipe holds, the last is a scalar's shape.
    given = [[rng.normal(size=shape).astype(np.float32) for shape in ((700, 501), (3, 2, 2), ())] for _ in peers]
    expected = [np.mean(arrays, axis=0, dtype=np.float64) for arrays in zip(*given, strict=True)]
    together(peers, lambda peer: peer.average(given[peer.rank]))
    for arrays in given:
        for array, first, mean in zip(arrays, given[0], expected, strict=True):
            np.testing.assert_array_equal(array, first)
            np.testing.assert_allclose(array, mean, rtol=1e-5, atol=1e-6)


def test_the_first_ones_arrays_are_taken(peers):
    given = [[np.full((400, 500), peer.rank, np.float32), np.full(3, peer.rank, np.uint8)] for peer in peers]
    together(peers, lambda peer: peer.broadcast(given[peer.rank]))
    assert all(
        (array == 0).all() and array.dtype == kind
        for arrays in given
        for array, kind in zip(arrays, (np.float32, np.uint8), strict=True)
    )


@pytest.mark.parametrize("left", [0, 1])
def test_a_peer_that_ended_is_noticed(left):
    ends = Pipe()
    peer = Peers(left, [ends[left]])
    ends[1 - left].close()
    for work in (lambda: peer.any(False), lambda: peer.average([np.zeros(10**6, np.float32)])):
        with pytest.raises((EOFError, ConnectionError)):
            work()
    ends[left].close()


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
    ends = Pipe()
    with ends[0], ends[1], ThreadPoolExecutor(2) as pool:
        solvers = [solver(layer_wise) for _ in ends]
        reductions = [NcclReduction(Peers(rank, [end])) for rank, end in enumerate(ends)]
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
