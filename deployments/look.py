"""`redeploy status`, `history` and `diagnose`: look at a host and change nothing."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from blocks import config
from blocks.named_secrets import SecretMissing
from blocks.service import Service
from blocks.settings import Settings
from blocks.supervisor.ledger import FOUND
from blocks.supervisor.transactions import STOPS
from blocks.supervisor_client import Supervisor
from deployments import terminal
from deployments.read_journal import tell
from deployments.terminal import escape
from tasks import metrics
from tasks.diagnose import JOURNAL_LINES, examine
from tasks.diagnosis.symptoms import DeathKind
from tasks.drain import is_out
from tasks.facts import Facts
from tasks.nightly import Hold
from tasks.readiness import NotReady, Wanted, wait_until_ready
from tasks.release import ReleaseRecord
from tasks.snapshot import gpus_in_words

_PATIENCE_SECONDS = 5.0


def status(name: str, config_file: Path | None, *, as_json: bool) -> None:
    """Show what is live, what holds the environment, and the last redeploy."""
    with looking_at(name, config_file) as (found, supervisor, lacks):
        facts = Facts.model_validate(supervisor.call("facts", found.location()))
        state = supervisor.call("status", {"environment": found.environment})
        serves = f"not asked: {lacks.message}" if lacks else how_it_serves(found, supervisor, facts)
        half_done = _half_done(supervisor, state["locks"])
    if as_json:
        document = {"facts": facts.model_dump(mode="json"), "serves": serves, **state}
        print(json.dumps(document, indent=2))
        return
    table = Table(show_header=False, title=f"{found.unit} on {facts.host.name}")
    for row in _status_rows(found, facts, state, serves):
        table.add_row(row[0], escape(row[1]))
    for row in _holders(state, half_done):
        table.add_row(row[0], escape(row[1]))
    terminal.out.print(table)


def history(name: str, config_file: Path | None, *, as_json: bool) -> None:
    """Show the redeploys that the service's host remembers, newest first."""
    records = records_of(name, config_file)
    if as_json:
        print(json.dumps([one.model_dump(mode="json") for one in records], indent=2))
        return
    for record in records:
        terminal.release(record)
    if not records:
        terminal.notice(f"No redeploy of {name} is recorded on its host.")


def records_of(name: str, config_file: Path | None) -> list[ReleaseRecord]:
    """Return the redeploys that the service's host remembers, newest first."""
    with looking_at(name, config_file) as (found, supervisor, _):
        answer = supervisor.call("history", {"environment": found.environment})
    return [ReleaseRecord.model_validate(one) for one in answer["releases"]]


def diagnose(name: str, config_file: Path | None, *, as_json: bool) -> None:
    """Read a service's journal and host, and say why it does not run."""
    with looking_at(name, config_file) as (found, supervisor, _):
        facts = supervisor.call("facts", found.location())
        unit = facts["unit"]
        kind = how_it_stands(unit)
        asked = {"unit": found.unit, "lines": JOURNAL_LINES}
        if kind == "running":  # what an earlier start died of is not why this one runs
            asked["invocation"] = unit["invocation_id"]
        entries = supervisor.call("journal", asked)["entries"]
    finding = examine(entries, facts, kind=kind, fields={"unit": unit})
    tell(finding, as_json=as_json)


def how_it_serves(service: Service, supervisor: Supervisor, facts: Facts) -> str:
    """Ask a service one small question of its kind, and say what came of it."""
    asked = {
        "unit": service.unit,
        "invocation": facts.unit.invocation_id,
        "port": service.port,
        "restarts_tolerated": facts.unit.n_restarts,
    }
    if facts.unit.active_state != "active":
        return "nothing: it does not run"
    address = supervisor.call("alive", asked)["address"]
    if address is None:
        return f"nothing: it does not listen on port {service.port}"
    version = facts.environment.versions().get(service.distribution, "")
    wanted = Wanted(version, service.served_model, service.kind, service.api_key)
    with service.host.tunnel(service.port, address) as local_port:
        url = f"http://127.0.0.1:{local_port}"
        before = metrics.read(url)
        try:
            kind = wait_until_ready(url, wanted, link=lambda: None, patience=_PATIENCE_SECONDS)
        except NotReady as error:
            heart = metrics.beat(before, metrics.read(url), asked=True)
            return f"not as configured: {error}; by its metrics it is {heart}"
    return f"{version}, answers as {kind}"


def how_it_stands(unit: Mapping[str, Any]) -> DeathKind:
    """Return the word for a unit's state by which a diagnosis begins."""
    if unit["load_state"] != "loaded":
        return "gone"
    if unit["active_state"] == "active":
        # One that runs again shows nothing any more of how the one before it ended.
        return "crashed" if unit["n_restarts"] else "running"
    clean = unit["result"] == "success" and unit["exec_main_status"] == 0
    return "exited" if clean else "crashed"


@contextmanager
def looking_at(
    name: str, config_file: Path | None
) -> Iterator[tuple[Service, Supervisor, SecretMissing | None]]:
    """Give a service of the configuration, its supervisor, and the secret that it lacks.

    Args:
        name: the service's.
        config_file: the configuration; None: where settings say.
    """
    with terminal.errors_told():
        service, lacks = config.load(config_file or Settings().config).to_look_at(name)
        supervisor = Supervisor(service.host)
        try:
            supervisor.install()
            yield service, supervisor, lacks
        finally:
            service.host.close()


def _half_done(supervisor: Supervisor, locks: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return by holder of a lock what it has done to the service, in words."""
    found = {}
    for lock in locks:
        holder = lock["holder"]
        done = supervisor.call("operations", {"prefix": holder})["operations"]
        names = {one["operation"].removeprefix(f"{holder}/") for one in done}
        found[holder] = ["it has stopped the service"] * any(one["verb"] in STOPS for one in done)
        found[holder] += ["STILL DRAINED: it has taken it out of its router"] * is_out(names)
    return found


def _status_rows(
    service: Service, facts: Facts, state: dict[str, Any], serves: str
) -> Iterator[tuple[str, str]]:
    unit, environment = facts.unit, facts.environment
    yield "unit", f"{unit.active_state} ({unit.sub_state}), {unit.n_restarts} restarts"
    yield "serves", serves
    yield service.distribution, environment.versions().get(service.distribution, "not installed")
    yield "environment", f"{environment.path}, {len(environment.packages)} packages"
    yield "GPUs", gpus_in_words(facts)
    live = next((one for one in state["folders"] if one["path"] == environment.path), None)
    if live is not None:
        known = {True: "as it was recorded", False: "CHANGED since it was recorded"}
        changed = known.get(live["as_recorded"], "its files were not recorded")
        yield "release", f"{_release(live)}, live since {terminal.clock(live['since'])}, {changed}"
    if state["hold"]:
        yield "on hold", f"it {Hold.model_validate(state['hold']).in_words}"
    for one in state["folders"]:
        if one is not live:
            yield str(one["state"]), f"{one['path']}: {_release(one)}"
    for operation in state["running"]:
        yield "running", f"{operation['operation']} since {terminal.clock(operation['started'])}"
    last = state.get("last_release")
    if last:
        ended = datetime.fromisoformat(last["time"]).timestamp()
        yield "last redeploy", f"{terminal.clock(ended)}: {last['verdict']}"


def _release(folder: Mapping[str, Any]) -> str:
    return "as it was found here" if folder["release"] == FOUND else str(folder["release"])


def _holders(
    state: dict[str, Any], half_done: Mapping[str, list[str]]
) -> Iterator[tuple[str, str]]:
    for lock in state["locks"]:
        holder = lock["holder"]
        silent = ", which fell silent" if lock.get("dead") else ""
        yield "held by", f"{lock['who']}: {lock['why']}, since {terminal.clock(lock['since'])}"
        yield "", f"redeploy {holder}{silent}"
        yield from (("", said) for said in half_done.get(holder, []))
        yield "if it was cut off", terminal.go_on(holder)
