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
    record_files: Mapping[str, str] | None = None,
    solver_mode: str | None = None,
    weights: str | None = None,
) -> tuple[dict[str, str], str]:
    """The texts of the nets by name (:func:`latent_domains.nets.family.make_nets`) and of the solver.

    ``net_file`` gives the path by which the solver finds a net. ``counts`` and ``test_counts`` are the images of each
    part and the test images of each tested target (None: the published numbers): a batch is shared out by the first,
    and a test pass covers the second, but for less than a batch. ``solver_mode`` is GPU or CPU (None: the recipe's).
    ``weights`` is the caffemodel that training begins from (None: the fillers draw).
    """
    data, recipe = experiment.data, experiment.recipe
    tested = experiment.task.tests.values()
    test_counts = test_counts or {target: data.test_count(target) for target in tested}
    tests = {target: data.test_batches(test_counts[target]) for target in tested}
    nets = make_nets(
        experiment,
        data_folder,
        sizes=batch_sizes(experiment, counts or published_counts(experiment)),
        test_batch_sizes={target: size for target, (size, _) in tests.items()},
        domain_label_lmdbs=domain_label_lmdbs,
        record_files=record_files,
    )
    solver = caffe_pb2.SolverParameter(
        train_net=net_file("train"),
        test_net=map(net_file, experiment.task.tests),
        test_iter=[batches for _, batches in tests.values()],
        test_interval=recipe.test_interval if tests else None,
        test_initialization=False,
        type="SGD",
        base_lr=experiment.recipe.base_lr,
        lr_policy=recipe.lr_policy,
        **_schedule(experiment),
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        max_iter=experiment.recipe.iterations,
        iter_size=experiment.recipe.iter_size if experiment.recipe.iter_size != 1 else None,
        display=10,
        snapshot=recipe.snapshot_interval,
        snapshot_prefix=snapshot_prefix,
        random_seed=experiment.seed,
        weights=[weights] if weights else [],
        solver_mode=caffe_pb2.SolverParameter.SolverMode.Value(solver_mode or recipe.solver_mode),
    )
    return nets, text_format.MessageToString(solver)


def _schedule(experiment: Experiment) -> dict[str, float]:
    """What the solver's policy of the learning rate needs.

    With p = iteration/iterations, "inv" is Ganin & Lempitsky's schedule, lr = base_lr (1 + 10 p)^-0.75; "step"
    multiplies the learning rate by 0.1 once.
    """
    if experiment.recipe.lr_policy == "inv":
        return {"gamma": 10 / experiment.recipe.iterations, "power": 0.75}
    return {"gamma": 0.1, "stepsize": round(experiment.recipe.lr_step * experiment.recipe.iterations)}
