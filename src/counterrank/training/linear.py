"""How a linear model is learned: gradient descent, with a race for the step size where none is given."""

from __future__ import annotations

from counterrank.common.errors import CounterrankError
from counterrank.common.progress import progress
from counterrank.common.ranking import longest_query
from counterrank.models.linear import LinearModel, linear_importances
from counterrank.models.scaling import Scaler
from counterrank.training.descent import Run, Schedule, natural_step, race, race_epochs
from counterrank.training.evidence import make_judge
from counterrank.training.problem import LinearProblem
from counterrank.training.task import Learned, Task


def learn_linear(task: Task) -> Learned:
    """Learn the coefficients of a linear model."""
    data, settings = task.data, task.settings
    if settings.params:
        raise CounterrankError(f"params: {', '.join(map(str, settings.params))}; a linear model has none, leave it out")
    schedule = Schedule(
        settings.max_epochs, settings.patience, settings.batch_queries, settings.entropy, settings.threads,
        settings.tolerance,
    )  # fmt: skip
    spec = task.loss.spec(task.k, longest_query(data.offsets))
    scaler = Scaler.learn(settings.normalize, data, settings.threads)
    scales = scaler.scales(data, settings.threads)
    problem = LinearProblem.make(data, task.evidence.weights, scales, spec, task.evidence.sets)
    on_training = make_judge(task.metric, data, task.evidence, scales)
    on_validation = None
    if task.validation is not None:
        other, judged_by = task.validation
        on_validation = make_judge(task.metric, other, judged_by, scaler.scales(other, settings.threads))

    def make_run(step: float) -> Run:
        return Run(problem, schedule, step, on_training, on_validation)

    step = settings.learning_rate
    total = race_epochs(schedule.max_epochs) if step is None else schedule.max_epochs
    with progress(f"training {task.loss.name}", total) as advance:
        if step is None:
            run = race(make_run, natural_step(problem), schedule, advance)
        else:
            run = make_run(step)
            run.advance(schedule.max_epochs, schedule.threads, advance)
    if run.failed:
        raise CounterrankError(
            f"learning_rate={'auto' if step is None else step}: training diverged; use a smaller one or 'auto'"
        )
    importances = linear_importances(data, run.kept, scales, settings.threads)
    return Learned(LinearModel(run.kept, scaler), run.history, run.best_epoch, run.step, importances)
