"""A small client of Prefect's REST API, as any other program would write one."""

import time
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel

from tests.integration.polling import until

Model = TypeVar("Model", bound=BaseModel)

ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
_BUSY_SECONDS = 20


class State(BaseModel):
    """A state: its type, its name, and what it says."""

    type: str
    name: str
    message: str | None = None


class FlowRun(BaseModel):
    """A flow run."""

    id: str
    name: str
    state: State
    run_count: int


class TaskRun(BaseModel):
    """A task run."""

    id: str
    name: str
    state: State


class Artifact(BaseModel):
    """An artifact of a flow run or a task run."""

    key: str | None
    type: str | None
    description: str | None
    data: Any
    flow_run_id: str | None


class PrefectApi:
    """Prefect's API at one address. SQLite under load answers 503: that is asked again."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=f"{url}/api/", timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send one request; return the answer unless it says busy, then send it again."""
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            response = self._client.request(method, path, json=body)
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return response
            if time.monotonic() > deadline:
                response.raise_for_status()
            time.sleep(0.2)

    def deployment(self, name: str = "redeploy/manual") -> dict[str, Any]:
        """Return a deployment by its flow's and its own name."""
        found: dict[str, Any] = _good(self.ask("GET", f"deployments/name/{name}")).json()
        return found

    def request_run(self, **request: object) -> httpx.Response:
        """Ask for a redeploy the way the documented `curl` does; return the raw answer."""
        return self._request("redeploy/manual", {"request": request})

    def start(self, **request: object) -> FlowRun:
        """Start a redeploy."""
        return FlowRun.model_validate(_good(self.request_run(**request)).json())

    def start_rollback(self, **parameters: object) -> FlowRun:
        """Start a rollback by hand."""
        asked = self._request("rollback/by-hand", parameters)
        return FlowRun.model_validate(_good(asked).json())

    def _request(self, deployment: str, parameters: dict[str, object]) -> httpx.Response:
        path = f"deployments/{self.deployment(deployment)['id']}/create_flow_run"
        return self.ask("POST", path, {"parameters": parameters})

    def flow_run(self, run: str) -> FlowRun:
        """Return a flow run."""
        return FlowRun.model_validate(_good(self.ask("GET", f"flow_runs/{run}")).json())

    def wait(self, run: str, *types: str, seconds: float = 120, count: int = 0) -> FlowRun:
        """Wait until a run is in a state of one of the types; default: until it has ended.

        With a count, it has to have run so often by then.
        """
        wanted = types or ENDED

        def look() -> FlowRun | None:
            found = self.flow_run(run)
            return found if found.state.type in wanted and found.run_count >= count else None

        return until(look, f"run {run} {'/'.join(wanted)}", seconds, pause=0.2)

    def resume(self, run: str) -> None:
        """Do what Retry in the UI does."""
        state = {"type": "SCHEDULED", "name": "AwaitingRetry"}
        answer = _good(self.ask("POST", f"flow_runs/{run}/set_state", {"state": state})).json()
        assert answer["status"] == "ACCEPT", answer

    def cancel(self, run: str) -> None:
        """Do what Cancel in the UI does."""
        state = {"type": "CANCELLING"}
        answer = _good(self.ask("POST", f"flow_runs/{run}/set_state", {"state": state})).json()
        assert answer["status"] == "ACCEPT", answer

    def states(self, run: str) -> list[State]:
        """Return all states that a run was in."""
        return _all(State, self.ask("GET", f"flow_run_states/?flow_run_id={run}"))

    def automations(self) -> list[dict[str, Any]]:
        """Return the automations."""
        found: list[dict[str, Any]] = _good(self.ask("POST", "automations/filter", {})).json()
        return found

    def nested(self, run: str) -> list[FlowRun]:
        """Return the nested runs of a run, oldest first."""
        where = {"flow_runs": {"parent_flow_run_id": {"any_": [run]}}}
        body = {**where, "sort": "START_TIME_ASC"}
        return _all(FlowRun, self.ask("POST", "flow_runs/filter", body))

    def tasks(self, run: str) -> list[TaskRun]:
        """Return the task runs of one flow run, oldest first."""
        where = {"task_runs": {"flow_run_id": {"any_": [run]}}}
        body = {**where, "sort": "EXPECTED_START_TIME_ASC", "limit": 200}
        return _all(TaskRun, self.ask("POST", "task_runs/filter", body))

    def artifacts(self, run: str) -> list[Artifact]:
        """Return the artifacts on one flow run's page."""
        where = {"artifacts": {"flow_run_id": {"any_": [run]}}}
        return _all(Artifact, self.ask("POST", "artifacts/filter", where))

    def logs(self, run: str) -> list[str]:
        """Return the log of a flow run."""
        where = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC", "limit": 200}
        found = _good(self.ask("POST", "logs/filter", where)).json()
        return [line["message"] for line in found]


def _good(response: httpx.Response) -> httpx.Response:
    assert response.is_success, f"{response.status_code}: {response.text}"
    return response


def _all(kind: type[Model], response: httpx.Response) -> list[Model]:
    return [kind.model_validate(one) for one in _good(response).json()]
