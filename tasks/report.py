"""The pages of a redeploy, as markdown: plan, diagnosis, attempts, release. Pure."""

from collections.abc import Mapping, Sequence

from tasks.diagnosis.finding import Finding
from tasks.errors import StepFailed
from tasks.markdown import fenced, inert, table
from tasks.packages.diff import PackageChange, PackageDiff
from tasks.packages.versions import CommitDelta
from tasks.planned import Plan
from tasks.release import AttemptRecord, ReleaseRecord, StartRecord

_FIGURES = {
    "completed": "requests",
    "request_throughput": "requests/s",
    "output_throughput": "tokens/s out",
    "median_ttft_ms": "TTFT median, ms",
    "p99_ttft_ms": "TTFT p99, ms",
    "median_tpot_ms": "TPOT median, ms",
    "p99_tpot_ms": "TPOT p99, ms",
    "median_itl_ms": "ITL median, ms",
    "p99_itl_ms": "ITL p99, ms",
}
"""The keys of `vllm bench serve` that people compare, and what they are called."""

METRICS_GONE = "The old release told these, the new one does not: alerts on them have gone dumb."


def plan_page(plan: Plan) -> str:
    """Return the plan: the wheel, the commits, what moves and what is out of step."""
    skewed = "\n".join(f"- {inert(skew.sentence)}" for skew in plan.skews) or "None."
    repaired = [(one.package, one.before, one.version, one.sentence) for one in plan.repairs]
    return "\n\n".join(
        [
            f"# {inert(plan.before)} → {inert(plan.after)}",
            f"{_origin(plan)} {commits(plan.delta)}",
            _SWITCH[plan.switch],
            _down(plan),
            *_section("While it is down", ("runs on the host",), [(one,) for one in plan.commands]),
            "## Out of step",
            skewed,
            *_section("Put right in the staging", ("package", "is", "becomes", "why"), repaired),
            *_section("Kept as it is", ("package", "why"), list(plan.kept.items())),
            *_section("Needed by nothing any more", ("package",), [(one,) for one in plan.orphans]),
            "## Packages",
            packages(plan.changes),
        ]
    )


def _down(plan: Plan) -> str:
    if plan.down_seconds is None:
        return "How long the service will be down is unknown: no redeploy like this is recorded."
    return f"The service will be down for about {duration(plan.down_seconds)}, as before."


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a table below its title; of nothing, nothing."""
    return [f"## {title}", table(head, rows)] if rows else []


_SWITCH = {
    "exchange": "The old environment and the new one are exchanged at once.",
    "two-step": "This file system cannot exchange two folders at once: they are moved one after "
    "the other, and what is cut off in between is finished by the host.",
}


def _origin(plan: Plan) -> str:
    if plan.back_to is not None:
        return f"From {inert(plan.back_to)} on the host."
    if plan.wheel is None:
        return "From the package indexes."
    return f"Wheel {inert(plan.wheel.filename)}, commit {inert(plan.wheel.commit or 'unknown')}."


def diagnosis_page(finding: Finding, failure: StepFailed) -> str:
    """Return a diagnosis: cause, how sure, what to do, and the service's last lines."""
    parts = [finding_page(finding, failure)]
    doing, py_spy = failure.fields.get("doing"), failure.fields.get("py_spy")
    if failure.said:
        parts += ["## All that was said", fenced(failure.said)]
    if doing:
        parts += ["## What its processes did", fenced("\n".join(map(str, doing)))]
    if py_spy:
        parts += ["## Where their Python code was", fenced(str(py_spy))]
    last = "\n".join(str(line) for line in failure.fields.get("last_lines", []))
    return "\n\n".join([*parts, "## The last lines", fenced(last or "none")])


def failure_page(failure: StepFailed) -> str:
    """Return all that was said of a failure of which the message is only the short form."""
    return f"# {inert(failure.message)}\n\n{inert(failure.hint)}\n\n{fenced(failure.said)}"


def finding_page(finding: Finding, failure: StepFailed) -> str:
    """Return what was concluded, from what, and what follows."""
    cause = finding.root_cause
    rows = [
        ("failed in", f"{failure.step}: {failure.message}"),
        ("root cause", cause.text if cause else "not in the journal"),
        ("where", finding.where),
        ("kind", finding.kind),
        ("rule", finding.rule or "none"),
        ("how sure", finding.confidence),
        ("remedy", finding.remedy.sentence if finding.remedy else "none"),
        ("for you to do", finding.advice),
        ("looked at", "; ".join(finding.looked_at)),
    ]
    evidence = "\n".join(f"{line.number}: {line.text}" for line in finding.evidence)
    return "\n\n".join(
        [
            f"# {inert(finding.explanation)}",
            table(("what", ""), rows),
            "## Evidence",
            fenced(evidence or "nothing in the journal"),
        ]
    )


def attempts_page(attempts: Sequence[AttemptRecord]) -> str:
    """Return the attempts as a table."""
    return table(
        ("attempt", "outcome", "failed in", "how", "cause", "rule", "remedy"),
        [
            (
                one.number,
                one.outcome,
                one.failed_step,
                one.failure,
                one.cause,
                one.rule,
                "; ".join(one.remedy or []),
            )
            for one in attempts
        ],
    )


def release_page(record: ReleaseRecord) -> str:
    """Return the whole story on one page."""
    parts = [
        f"# {inert(record.verdict)}",
        table(
            ("what", ""),
            [
                ("service", f"{record.unit} on {record.host}"),
                ("environment", record.environment),
                ("who", record.who),
                ("why", record.why),
                ("took", duration(record.seconds)),
                ("stopped for", duration(record.stopped_seconds)),
                ("debug files removed", _removed(record)),
                ("requests cut off", record.requests_cut_off),
            ],
        ),
        commits(record.delta),
        "## Steps",
        steps(record),
        "## Attempts",
        attempts_page(record.attempts),
        "## Packages",
        packages(record.changes),
    ]
    if record.unplanned:
        parts += ["## Not as planned", _listed(record.unplanned)]
    if record.starts:
        parts += ["## The start, in seconds", stages(record.starts[-1])]
    if record.metrics_gone:
        parts += ["## Metrics that are gone", METRICS_GONE, _listed(record.metrics_gone)]
    if record.benchmark:
        parts += ["## Benchmark", benchmark(record.benchmark)]
    return "\n\n".join(parts)


def stages(start: StartRecord) -> str:
    """Return how long each stage of a start took."""
    rows = [(stage, f"{seconds:.1f}") for stage, seconds in start.seconds.items()]
    return table(("stage", f"seconds{f', compile {start.cache}' if start.cache else ''}"), rows)


def steps(record: ReleaseRecord) -> str:
    """Return where the time went, a row a step."""
    return table(
        ("step", "outcome", "took", "host", "our overhead"),
        [
            (
                f"{one.phase} {one.step}".strip(),
                one.outcome,
                duration(one.seconds),
                duration(one.host_seconds),
                duration(None if one.seconds is None else one.seconds - one.host_seconds),
            )
            for one in record.steps
        ],
    )


def packages(changes: PackageDiff) -> str:
    """Return the moves as a table under a line that counts them."""
    moved = [one for one in changes.changes if one.change not in ("reinstalled", "left")]
    counts = (
        f"{len(changes.locked)} installed: {len(changes.ups)} up, {len(changes.downs)} down, "
        f"{len(changes.added)} added, {len(changes.reinstalled)} at the same version. "
        f"{len(changes.removed)} removed. Left behind: {_names(changes.left_behind)}."
        if changes.locked
        else "Nothing was installed: the folder was exchanged."
    )
    rows = [(one.name, one.before, one.after, one.change) for one in moved]
    return f"{counts}\n\n{table(('package', 'before', 'after', 'change'), rows)}"


def commits(delta: CommitDelta) -> str:
    """Return the commit delta as a sentence."""
    link = f" [Compare]({delta.compare_url})" if delta.compare_url else ""
    if delta.count is None:
        return f"Commits: unknown. {inert(delta.why)}{link}"
    return f"{delta.count} commits.{link}"


def benchmark(measured: Mapping[str, object]) -> str:
    """Return the figures of a benchmark that people compare."""
    return table(("figure", "value"), figures(measured))


def figures(measured: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return what a benchmark measured as label and value, for people."""
    return [
        (label, f"{value:.2f}" if isinstance(value, float) else str(value))
        for name, label in _FIGURES.items()
        if (value := measured.get(name)) is not None
    ]


def duration(seconds: float | None) -> str:
    """Return seconds in words; a hyphen for what is not known."""
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _names(changes: Sequence[PackageChange]) -> str:
    return ", ".join(inert(f"{one.name} {one.after}") for one in changes) or "none"


def _listed(names: Sequence[str]) -> str:
    return "\n".join(f"- {inert(name)}" for name in names)


def _removed(record: ReleaseRecord) -> str:
    return f"{len(record.files_removed)} ({record.bytes_removed / 1e6:.1f} MB)"
