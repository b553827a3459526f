"""What a person sees in the terminal."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NoReturn

from pydantic import ValidationError
from rich import markup
from rich.console import Console
from rich.panel import Panel
from rich.table import Column, Table

from blocks.errors import ConfigurationError, RedeployError
from blocks.settings import Settings
from tasks.live import LIVE
from tasks.markdown import clean
from tasks.packages.diff import PackageDiff
from tasks.packages.versions import CommitDelta
from tasks.planned import Plan
from tasks.release import AttemptRecord, ReleaseRecord
from tasks.report import duration, figures


def escape(text: str) -> str:
    """Return foreign text in which neither markup nor a terminal command is left."""
    return markup.escape(clean(text))


out = Console()
err = Console(stderr=True)


def give_up(error: RedeployError) -> NoReturn:
    """Say an error and leave: 2 for a wrong wish or configuration, 1 for everything else."""
    err.print(f"[bold red]{escape(str(error))}[/]", highlight=False, soft_wrap=True)
    raise SystemExit(2 if isinstance(error, ConfigurationError) else 1)


def notice(message: str) -> None:
    """Print a passing remark, out of the way of what a program reads."""
    err.print(f"[dim]{escape(message)}[/]", highlight=False, soft_wrap=True)


@contextmanager
def errors_told() -> Iterator[None]:
    """Say an error that ends the block as a sentence, and leave; a wrong setting is one."""
    try:
        _require_settings()
        yield
    except RedeployError as error:
        give_up(error)


def _require_settings() -> None:
    try:
        Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = f"{Settings.model_config.get('env_prefix', '')}{first['loc'][0]}".upper()
        raise ConfigurationError(
            f"{name}={str(first['input'])[:80]} will not do: {first['msg']}.",
            "Correct the setting.",
        ) from error


class _LiveLine(logging.Handler):
    """Shows how a start gets on in one line that changes, where somebody looks on."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._status = out.status("")

    def emit(self, record: logging.LogRecord) -> None:
        """Show a line in place of the one before."""
        if out.is_terminal:
            self._status.update(f"[dim]{escape(record.getMessage())}[/]")
            self._status.start()

    def clear(self) -> None:
        """Take the line away, until there is another one."""
        self._status.stop()


class Lines(logging.Handler):
    """Prints what the steps say, with the time since the beginning.

    Attributes:
        last_error: the last line, if it was an error, else "".
    """

    def __init__(self, live: _LiveLine) -> None:
        super().__init__(logging.INFO)
        self._began = time.monotonic()
        self._live = live
        self.last_error = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line that a step said; Prefect's own lines are left out."""
        step = getattr(record, "step", None)
        if step is None:
            return
        self._live.clear()
        colour = "red" if record.levelno >= logging.ERROR else "cyan"
        self.last_error = record.getMessage() if colour == "red" else ""
        out.print(
            f"[dim]{time.monotonic() - self._began:6.1f} s[/]  "
            f"[{colour}]{escape(step):<24}[/] {escape(record.getMessage())}",
            highlight=False,
            soft_wrap=True,
        )


@contextmanager
def told(*, quiet: bool) -> Iterator[Lines]:
    """Print what the steps of a run say while it is under way, unless quiet."""
    live = _LiveLine()
    lines = Lines(live)
    if quiet:
        yield lines
        return
    heard: list[tuple[logging.Logger, logging.Handler]] = [
        (logging.getLogger(f"prefect.{name}_runs"), lines) for name in ("flow", "task")
    ]
    heard.append((LIVE, live))
    for logger, handler in heard:
        logger.addHandler(handler)
    try:
        yield lines
    finally:
        live.clear()
        for logger, handler in heard:
            logger.removeHandler(handler)


def interrupted(service: str, run_id: str | None, *, drains: bool) -> None:
    """Say what holds after Ctrl-C.

    Args:
        service: the service's name.
        run_id: the redeploy's id; None: it was not begun.
        drains: whether it takes the service out of a router, which its host cannot put back.
    """
    if run_id is None:
        err.print("[bold]Interrupted[/] before anything was done.", highlight=False)
        return
    out_of = " If it was drained, it is STILL DRAINED: going on puts it back." if drains else ""
    err.print(
        "[bold]Interrupted.[/] The host finishes the operation under way. When it hears nothing "
        "more for grace_seconds it ends this by itself, on a release that serves."
        f"{out_of} "
        f"Look: redeploy status {service}. Go on: {go_on(run_id)}",
        highlight=False,
        soft_wrap=True,
    )


def cut_off(name: str, run_id: str) -> None:
    """Say that a redeploy was cut off by the end of this process."""
    err.print(
        f"[bold red]Cut off:[/] {escape(name)}. Its service may be stopped. Go on: {go_on(run_id)}",
        highlight=False,
        soft_wrap=True,
    )


def clock(seconds: float) -> str:
    """Return a time, in seconds since 1970, as people write it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def go_on(run_id: str) -> str:
    """Return the command that goes on with a redeploy that was cut off."""
    return escape(f"redeploy resume {run_id}")


def verdict(message: str, *, good: bool) -> None:
    """Print one sentence in a box."""
    colour = "green" if good else "red"
    if out.is_terminal:
        out.print(Panel(escape(message), style=colour, expand=False))
    else:
        out.print(f"[{colour}]{escape(message)}[/]", highlight=False, soft_wrap=True)


def plan(drawn_up: Plan) -> None:
    """Print a plan: what moves and what stays, what is out of step, what it will cost."""
    out.print(_packages(drawn_up.changes))
    if drawn_up.wheel is not None:
        out.print(f"Wheel: {escape(drawn_up.wheel.filename)}", highlight=False)
    out.print(f"Commits: {_commits(drawn_up.delta)}", highlight=False)
    for repair in drawn_up.repairs:
        moved = f"{repair.package} {repair.before} → {repair.version}: {repair.sentence}"
        out.print(f"Put right in the staging: {escape(moved)}", highlight=False)
    for skew in drawn_up.skews:
        out.print(f"[yellow]Out of step:[/] {escape(skew.sentence)}", highlight=False)
    for name, why in drawn_up.kept.items():
        out.print(f"Kept as it is: {escape(f'{name}: {why}')}", highlight=False)
    if drawn_up.orphans:
        names = escape(", ".join(drawn_up.orphans))
        out.print(f"Needed by nothing any more, and left: {names}", highlight=False)
    lasts = drawn_up.down_seconds
    about = "unknown" if lasts is None else f"about {duration(lasts)}, as before"
    out.print(f"Down for: {about}. Meanwhile:", highlight=False)
    for command in drawn_up.commands:
        out.print(f"  {escape(command)}", highlight=False, soft_wrap=True)


def release(record: ReleaseRecord) -> None:
    """Print one redeploy of a host's history in three lines."""
    colour = "green" if record.result == "live" else "red"
    who = escape(" ".join(filter(None, (record.who, record.why and f"({record.why})"))))
    for line in (
        f"[bold]{record.time}[/]  [{colour}]{record.result}[/]  {who}",
        f"  {escape(record.before)} → {escape(record.after)}, attempts: {len(record.attempts)}, "
        f"stopped for {duration(record.stopped_seconds)}",
        f"  [dim]{record.id}[/]",
    ):
        out.print(line, highlight=False, soft_wrap=True)


def report(record: ReleaseRecord) -> None:
    """Print a redeploy: the steps, the attempts, the packages, the benchmark."""
    out.print()
    out.print(_steps(record))
    if record.attempts:
        out.print(attempts(record.attempts))
    if record.result.startswith("live"):
        out.print(_packages(record.changes))
        out.print(f"Commits: {_commits(record.delta)}", highlight=False)
    if record.locked:
        removed, size = len(record.files_removed), record.bytes_removed / 1e6
        out.print(f"Debug files removed: {removed} ({size:.1f} MB)", highlight=False)
    out.print(f"It took {duration(record.seconds)}.", highlight=False)
    if record.stopped_seconds is not None:
        out.print(f"The service was down for {duration(record.stopped_seconds)}.", highlight=False)
    if record.metrics_gone:
        out.print(f"[yellow]Metrics that are gone[/]: {escape(', '.join(record.metrics_gone))}")
    if record.benchmark:
        out.print(_benchmark(record.benchmark))


def side_by_side(records: Mapping[str, ReleaseRecord]) -> None:
    """Print what each of several redeploys cost, a column each, below what it was told."""
    table = Table("", *records, title="Side by side")
    table.add_row("starts", *(str(len(one.attempts)) for one in records.values()))
    failed = (sum(tried.outcome == "failed" for tried in one.attempts) for one in records.values())
    table.add_row("of them failed", *map(str, failed))
    table.add_row("service down for", *(duration(one.stopped_seconds) for one in records.values()))
    table.add_row("in all", *(duration(one.seconds) for one in records.values()))
    out.print()
    out.print(table)


def _steps(record: ReleaseRecord) -> Table:
    table = Table("step", "took", "on the host", "our overhead", title="Where the time went")
    for one in record.steps:
        mark = "[green]✓[/]" if one.outcome == "ok" else "[red]✗[/]"
        name = f"{one.phase} · {one.step}" if one.phase else one.step
        over = None if one.seconds is None else one.seconds - one.host_seconds
        table.add_row(
            f"{mark} {escape(name)}",
            duration(one.seconds),
            duration(one.host_seconds),
            duration(over),
        )
    return table


def attempts(told_of: Sequence[AttemptRecord]) -> Table:
    """Return the attempts of a redeploy as a table."""
    table = Table(show_header=False, title="Attempts")
    for one in told_of:
        if one.outcome == "healthy":
            told = [
                "[green]✓ healthy[/]",
                *(f"[yellow]{escape(remark)}[/]" for remark in one.remarks),
            ]
            table.add_row(str(one.number), "\n".join(told))
            continue
        lines = [f"[red]✗ {escape(one.failed_step or '')}[/]: {escape(one.failure or '')}"]
        lines.append(f"[bold]cause[/] {escape(one.cause or 'unknown')}")
        if one.root_cause and not one.rule:
            lines.append(f"[bold]failed first[/] {escape(one.root_cause)}")
        if one.remedy:
            lines.append(f"[bold]cured by[/] {escape('; '.join(one.remedy))} ({one.rule})")
        else:
            lines.append(f"[bold]for you to do[/] {escape(one.advice or '')}")
            lines += [f"[dim]{escape(line)}[/]" for line in one.last_lines]
        table.add_row(str(one.number), "\n".join(lines))
    return table


def _packages(changes: PackageDiff) -> Table:
    out_of_lock = {one.name for one in changes.left_behind}
    counted = Counter(one.change for one in changes.changes if one.name not in out_of_lock)
    moved = f"{counted['up']} up, {counted['down']} down, {counted['added']} new"
    title = f"Packages: {moved}, {counted['removed']} gone with the folder"
    if changes.locked:
        title = (
            f"Packages: {len(changes.locked)} in the lock ({moved}, {counted['reinstalled']} at "
            f"the same version), {len(out_of_lock)} left behind"
        )
    folded = [Column(name, overflow="fold") for name in ("before", "after")]
    table = Table("package", *folded, "", title=title)
    for one in changes.changes:
        if one.change in ("reinstalled", "left") and one.name not in out_of_lock:
            continue
        note = f"{one.change}, not in the lock" if one.name in out_of_lock else one.change
        table.add_row(escape(one.name), escape(one.before or ""), escape(one.after or ""), note)
    return table


def _commits(delta: CommitDelta) -> str:
    if delta.count is None:
        return escape(delta.why)
    return f"{delta.count} ({delta.from_commit} → {delta.to_commit})"


def _benchmark(measured: Mapping[str, object]) -> Table:
    table = Table("figure", "value", title="vllm bench serve")
    for label, value in figures(measured):
        table.add_row(label, value)
    return table
