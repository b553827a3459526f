"""Write down on the host, and on the run's page, what a redeploy did."""

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from blocks.errors import HostError, RedeployError
from blocks.supervisor.transactions import STILL_DRAINED
from tasks import report
from tasks.artifacts import publish
from tasks.cleanup import Cleaned
from tasks.diagnosis.finding import Finding
from tasks.drain import Drained
from tasks.errors import StepFailed
from tasks.facts import Facts
from tasks.fix import Fixed
from tasks.packages.diff import diff, unplanned
from tasks.planned import Plan
from tasks.redeployment import Redeployment
from tasks.reinstall import Staged
from tasks.release import AttemptRecord, ReleaseRecord, Result, StartRecord
from tasks.startup.history import Start
from tasks.steps import step
from tasks.timing import Operation, down_time, steps_of, whole_time
from tasks.undrain import may_be_out
from tasks.wait_healthy import Serving

_LONGEST = 2000
_LINES = 10


@dataclass
class Story:
    """What is known of a redeploy so far."""

    before: Facts
    plan: Plan
    metrics_before: list[str] = field(default_factory=list)
    cleaned: Cleaned = field(default_factory=Cleaned)
    staged: Staged | None = None
    previous: str | None = None
    attempts: list[AttemptRecord] = field(default_factory=list)
    starts: list[StartRecord] = field(default_factory=list)
    metrics_gone: list[str] = field(default_factory=list)
    drained: Drained = field(default_factory=Drained)
    benchmark: dict[str, Any] | None = None
    cancelled: bool = False

    @property
    def tried(self) -> set[str]:
        """Return the rules whose remedies were carried out."""
        return {one.rule for one in self.attempts if one.rule and one.remedy}

    @property
    def attempts_in_words(self) -> str:
        """Return how many attempts it took, and what was odd about the last one."""
        number = len(self.attempts)
        remarks = self.attempts[-1].remarks if self.attempts else []
        return " ".join([f"{'one attempt' if number == 1 else f'{number} attempts'}.", *remarks])

    def healthy(self, number: int, serving: Serving, start: Start) -> None:
        """Remember an attempt that serves."""
        remarks = remarks_on(serving)
        self.attempts.append(AttemptRecord(number=number, outcome="healthy", remarks=remarks))
        self.started(serving, start)

    def started(self, serving: Serving, start: Start) -> None:
        """Remember how long a start took that serves."""
        self.starts.append(
            StartRecord(
                host=start.host,
                model=start.model,
                flags=list(start.flags),
                version=start.version,
                seconds=serving.seconds,
                cache=serving.cache,
                restarts=serving.restarts,
                kind=serving.kind,
            )
        )

    def failed(self, number: int, failure: StepFailed, finding: Finding) -> None:
        """Remember an attempt that failed, and why."""
        self.attempts.append(
            AttemptRecord(
                number=number,
                outcome="failed",
                failed_step=failure.step,
                failure=failure.message,
                kind=finding.kind,
                rule=finding.rule,
                cause=finding.explanation,
                root_cause=finding.root_cause.text[:_LONGEST] if finding.root_cause else None,
                last_lines=[str(one) for one in failure.fields.get("last_lines", [])][-_LINES:],
                advice=finding.advice,
            )
        )

    def cured(self, fixed: Fixed) -> None:
        """Remember the remedy that was carried out after the last attempt."""
        self.attempts[-1].remedy = fixed.done


def remarks_on(serving: Serving) -> list[str]:
    """Return what a person should know of a start that serves."""
    remarks = []
    if serving.restarts:
        times = "once" if serving.restarts == 1 else f"{serving.restarts} times"
        remarks.append(f"systemd restarted it {times} on the way.")
    slow = {one.stage: one for one in sorted(serving.slow, key=lambda one: one.quiet_seconds)}
    return remarks + [f"In stage {stage!r}: {one.why}" for stage, one in slow.items()]


def already_ended(run: Redeployment) -> ReleaseRecord | None:
    """Return the record of this redeploy if it has ended before."""
    if not run.finished("record"):
        return None
    found = run.supervisor.call("history", {"environment": run.service.environment})
    mine = [one for one in found["releases"] if one["id"] == run.id]
    return ReleaseRecord.model_validate(mine[0]) if mine else None


def no_longer_drained(run: Redeployment, ended: ReleaseRecord) -> str:
    """Return the verdict of a run that its host has ended, once it is back in its router.

    Where the host said that it is still out, that is no longer so, and is recorded.
    """
    said, still, _ = ended.verdict.partition(STILL_DRAINED)
    if not still:
        return ended.verdict
    verdict = f"{said.rstrip()} It is back in its router."
    document = ended.model_copy(update={"verdict": verdict}).model_dump(mode="json")
    run.do("record", "record", {"record": document}, operation="record-undrained")
    return verdict


def record_if_possible(run: Redeployment, story: Story, result: Result, verdict: str) -> str:
    """Record the redeploy and return its verdict, which a failed record only adds to.

    Where the host, or a person there, has recorded the end first, theirs is the verdict.
    """
    try:
        record(run, story, result, verdict)
    except HostError:
        return f"{verdict} This is not recorded: the host does not answer."
    except StepFailed as error:
        ended = already_ended(run)
        if ended is not None:
            return f"{ended.verdict}{may_be_out(run)}"
        run.log_unexpected(error)
        return f"{verdict} This is not recorded: {error}"
    except Exception as error:
        run.log_unexpected(error)
        return f"{verdict} This is not recorded: {error}"
    return verdict


@step("record")
def record(run: Redeployment, story: Story, result: Result, verdict: str) -> ReleaseRecord:
    """Record the redeploy on the host and publish its pages.

    Raises:
        StepFailed: the host could not write the record.
    """
    written = _write_up(run, story, result, verdict)
    run.do("record", "record", {"record": written.model_dump(mode="json")})
    if result.startswith("live") and story.plan.back_to is None:  # what was rejected stays a while
        _prune(run)
    publish(run, "release", report.release_page(written), verdict)
    if written.attempts:
        publish(run, "attempts", report.attempts_page(written.attempts), verdict)
    return written


def _prune(run: Redeployment) -> None:
    """Have what earlier redeploys left beside the environment removed; it may wait."""
    try:
        asked = {"environment": run.service.environment}
        removed = run.do("record", "prune", asked, operation="prune")["removed"]
    except RedeployError as error:
        run.log(f"What earlier redeploys left was not removed: {error}", logging.WARNING)
        return
    for path in removed:
        run.log(f"removed: {path}")


def draft(run: Redeployment, story: Story) -> ReleaseRecord:
    """Return what the host writes down of a redeploy that it has to end by itself.

    Time, result and verdict are the host's; the rest is what is known before the stop.
    """
    request, service, plan = run.request, run.service, story.plan
    return ReleaseRecord(
        id=run.id,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        service=request.service,
        host=story.before.host.name,
        unit=service.unit,
        environment=service.environment,
        distribution=service.distribution,
        target=request.target,
        strategy=request.strategy,
        skew=request.skew,
        who=request.who,
        why=request.reason,
        result="down",
        verdict="",
        before=plan.before,
        after=plan.after,
        delta=plan.delta,
        changes=plan.changes,
        repairs=plan.repairs,
        locked=len(plan.locked),
        packages=len(story.staged.packages if story.staged else story.before.environment.packages),
        files_removed=[file.path for file in story.cleaned.removed],
        bytes_removed=story.cleaned.bytes,
        requests_cut_off=story.drained.requests_left if story.drained.hook else None,
        lock=plan.lock,
    )


def _write_up(run: Redeployment, story: Story, result: Result, verdict: str) -> ReleaseRecord:
    operations = [Operation.model_validate(one) for one in run.recorded()]
    now = Facts.model_validate(run.supervisor.call("facts", run.service.location()))
    installed, found = story.before.environment.versions(), now.environment.versions()
    moved = [one.partition("==")[0] for each in story.attempts for one in each.remedy or ()]
    live = result.startswith("live")
    return draft(run, story).model_copy(
        update={
            "result": result,
            "verdict": verdict,
            "changes": diff(installed, found, story.plan.locked),
            "unplanned": unplanned(story.plan.changes, found, moved) if live else [],
            "packages": len(now.environment.packages),
            "attempts": story.attempts,
            "starts": story.starts,
            "metrics_gone": story.metrics_gone,
            "steps": steps_of(run.id, operations, run.times),
            "seconds": whole_time(operations),
            "stopped_seconds": down_time(operations),
            "benchmark": story.benchmark,
            "previous": story.previous,
            "cancelled": story.cancelled,
        }
    )
