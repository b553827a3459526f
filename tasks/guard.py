"""Have the host know the way back, before anything is changed: it goes back by itself."""

from blocks.settings import Settings
from tasks.earlier_starts import earlier_starts
from tasks.record import Story, draft
from tasks.redeployment import Redeployment
from tasks.reinstall import sibling_path
from tasks.start import starting
from tasks.steps import step
from tasks.switch import previous_path, rejected_path
from tasks.wait_healthy import longest, watching


@step("guard")
def guard(run: Redeployment, story: Story) -> None:
    """Write down on the host what is begun now, and have it end that when we fall silent.

    Raises:
        StepFailed: the host cannot be set to go back by itself.
    """
    service = run.service
    plan = story.plan
    history = earlier_starts(run, plan.after if plan.back_to else plan.before)
    run.do(
        "guard",
        "open",
        {
            **starting(service, story.before.gpu_baseline()),
            **watching(service),
            "longest": longest(history),
            "seconds": service.steady_seconds,
            "sibling": sibling_path(run),
            "previous": previous_path(run),
            "rejected": rejected_path(run),
            "back_to": story.plan.back_to,
            "stop_timeout_seconds": service.stop_timeout_seconds,
            "grace_seconds": service.grace_seconds,
            "ready_patience_seconds": Settings().ready_patience_seconds,
            "record": draft(run, story).model_dump(mode="json"),
        },
        operation="open",
    )
