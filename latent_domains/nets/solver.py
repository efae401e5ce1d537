"""The solver of an experiment."""

from collections.abc import Mapping

from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.experiment.experiment import Experiment


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
