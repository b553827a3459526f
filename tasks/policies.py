"""What holds for each step: how long it may take, what is tried again, what a person sees."""

from dataclasses import dataclass

LINK = "a lost link, until the host's link_patience_seconds have passed"
HOOK = "a hook without an answer, or with 5xx, 429 or exit status 75, three times"


@dataclass(frozen=True)
class Policy:
    """What holds for one step.

    Attributes:
        deadline_seconds: how long the flow waits for one operation of it, which goes on on the
            host; None: the service says.
        again: which errors are transient and tried again.
        shown: what a person sees when it fails.
    """

    deadline_seconds: int | None
    again: str
    shown: str


NOTE_SECONDS = 60
"""How long the flow waits for a note on the host."""

POLICIES = {
    "lock": Policy(60, LINK, "who holds the environment, since when and why"),
    "snapshot": Policy(120, LINK, "what could not be read"),
    "plan": Policy(900, f"{LINK}; an index that does not answer, three times", "why it is refused"),
    "prove-old": Policy(
        60,
        "a service that does not answer yet; the question under way at the end is waited for",
        "how it does not serve",
    ),
    "guard": Policy(120, LINK, "why the host cannot be set to go back by itself"),
    "drain": Policy(None, f"{LINK}; {HOOK}", "what the hook answered"),
    "stop": Policy(None, LINK, "systemd's answer"),
    "reinstall": Policy(3600, LINK, "uv's own words"),
    "verify": Policy(1800, LINK, "the files, markers and packages that are not as locked"),
    "cleanup": Policy(300, LINK, "what could not be removed"),
    "switch": Policy(300, LINK, "what was at the path and what is there now"),
    "start": Policy(None, LINK, "systemd's answer, or who holds the GPUs"),
    "restart": Policy(None, LINK, "systemd's answer, or who holds the GPUs"),
    "wait-healthy": Policy(None, LINK, "the last stage and the service's last lines"),
    "diagnose": Policy(300, LINK, "the finding, or that the log does not hold the cause"),
    "fix": Policy(1800, LINK, "the remedy and uv's own words"),
    "benchmark": Policy(None, LINK, "how many requests failed"),
    "undrain": Policy(None, HOOK, "STILL DRAINED, what the hook answered, and what to do by hand"),
    "record": Policy(300, LINK, "where the record is not"),
    "roll-back": Policy(None, LINK, "DOWN since when, and the one command to try"),
}


def seconds_for(step: str, verb: str = "") -> int:
    """Return how long an operation of a step is waited for, if the service does not say it."""
    if verb == "remember":
        return NOTE_SECONDS
    return POLICIES[step].deadline_seconds or NOTE_SECONDS


def policies_page() -> str:
    """Return the table of all steps as markdown; docs/steps.md is this."""
    rows = "\n".join(
        f"| {name} | {_limit(one.deadline_seconds)} | {one.again} | {one.shown} |"
        for name, one in POLICIES.items()
    )
    return (
        "# What happens when a step fails\n\n"
        "`longest` is the wait for one operation on the host; a step may have several, and what "
        f"has begun there goes on. A note on the host is waited for {NOTE_SECONDS} s. A host that "
        "takes a question and never answers it is given up 120 s later.\n\n"
        "| step | longest | tried again | what a person sees |\n|---|---|---|---|\n"
        f"{rows}\n"
    )


def _limit(seconds: int | None) -> str:
    return "as the service says" if seconds is None else f"{seconds} s"
