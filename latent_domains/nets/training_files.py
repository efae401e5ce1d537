"""The files that train an experiment: its nets and the solver that names them, with batches that fit its data."""

from collections.abc import Callable, Mapping

from latent_domains.experiment.batches import batch_sizes, published_counts
from latent_domains.experiment.experiment import Experiment
from latent_domains.nets.family import make_nets
from latent_domains.nets.solver import make_solver


def make_nets_and_solver(
    experiment: Experiment,
    data_folder: str,
    net_file: Callable[[str], str],
    snapshot_prefix: str,
    *,
    counts: Mapping[str, int] | None = None,
    test_counts: Mapping[str, int] | None = None,
    domain_label_lmdbs: Mapping[str, str] | None = None,
    solver_mode: str | None = None,
    weights: str | None = None,
) -> tuple[dict[str, str], str]:
    """The texts of the nets by name (:func:`latent_domains.nets.family.make_nets`) and of the solver.

    ``net_file`` gives the path by which the solver finds a net. ``counts`` and ``test_counts`` are the images of each
    part and the test images of each tested target (None: the published numbers): a batch is shared out by the first,
    and a test pass covers the second exactly once. ``weights`` is the caffemodel that training begins from (None: the
    fillers draw).
    """
    data = experiment.data
    tested = experiment.tests.values()
    test_counts = test_counts or {target: data.test_count(target) for target in tested}
    tests = {target: data.test_batches(test_counts[target]) for target in tested}
    nets = make_nets(
        experiment,
        data_folder,
        sizes=batch_sizes(experiment, counts or published_counts(experiment)),
        test_batch_sizes={target: size for target, (size, _) in tests.items()},
        domain_label_lmdbs=domain_label_lmdbs,
    )
    solver = make_solver(
        experiment,
        train_net=net_file("train"),
        test_nets={net_file(name): tests[target][1] for name, target in experiment.tests.items()},
        snapshot_prefix=snapshot_prefix,
        solver_mode=solver_mode,
        weights=weights,
    )
    return nets, solver
