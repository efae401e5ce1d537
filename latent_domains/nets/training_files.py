"""The files that train an experiment: its nets and the solver that names them, with batches that fit its data."""

from collections.abc import Callable, Mapping

from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.experiment.batches import batch_sizes, published_counts
from latent_domains.experiment.experiment import Experiment
from latent_domains.nets.family import make_nets


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


def make_solver(
    experiment: Experiment,
    *,
    train_net: str,
    test_nets: Mapping[str, int],
    snapshot_prefix: str,
    solver_mode: str | None = None,
    weights: str | None = None,
) -> str:
    """Solver prototxt; ``test_nets`` gives the number of test batches of each test net's file (none: no tests).

    With p = iteration/iterations, the policy "inv" is Ganin & Lempitsky's schedule, lr = base_lr (1 + 10 p)^-0.75;
    "step" multiplies the learning rate by 0.1 once. ``solver_mode`` is GPU or CPU (None: the recipe's). ``weights`` is
    the caffemodel that training begins from (None: the fillers draw).
    """
    recipe = experiment.data.recipe
    schedule = {
        "inv": {"gamma": 10 / experiment.iterations, "power": 0.75},
        "step": {"gamma": 0.1, "stepsize": max(1, round(recipe.lr_step * experiment.iterations))},
    }
    solver = caffe_pb2.SolverParameter(
        train_net=train_net,
        test_net=list(test_nets),
        test_iter=list(test_nets.values()),
        test_interval=recipe.test_interval if test_nets else None,
        test_initialization=False,
        type="SGD",
        base_lr=experiment.base_lr,
        lr_policy=recipe.lr_policy,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        max_iter=experiment.iterations,
        display=10,
        snapshot=recipe.snapshot_interval,
        snapshot_prefix=snapshot_prefix,
        random_seed=experiment.seed,
        weights=[weights] if weights else [],
        solver_mode=caffe_pb2.SolverParameter.SolverMode.Value(solver_mode or recipe.solver_mode),
        **schedule[recipe.lr_policy],
    )
    if experiment.iter_size != 1:
        solver.iter_size = experiment.iter_size
    return text_format.MessageToString(solver)
