"""The solver of an experiment."""

from caffe.proto import caffe_pb2
from google.protobuf import text_format

from tools.experiment import Experiment


def make_solver(
    experiment: Experiment, *, train_net: str, test_net: str, test_iterations: int, snapshot_prefix: str
) -> str:
    """Solver prototxt: Ganin & Lempitsky's schedule, lr = base_lr (1 + 10 p)^-0.75 with p = iteration/iterations."""
    recipe = experiment.data.recipe
    solver = caffe_pb2.SolverParameter(
        train_net=train_net,
        test_net=[test_net],
        test_iter=[test_iterations],
        test_interval=recipe.test_interval,
        test_initialization=False,
        type="SGD",
        base_lr=recipe.base_lr,
        lr_policy="inv",
        gamma=10 / experiment.iterations,
        power=0.75,
        momentum=0.9,
        weight_decay=recipe.weight_decay,
        max_iter=experiment.iterations,
        display=10,
        snapshot=recipe.snapshot_interval,
        snapshot_prefix=snapshot_prefix,
        random_seed=experiment.seed,
        solver_mode=caffe_pb2.SolverParameter.CPU,
    )
    return text_format.MessageToString(solver)
