"""Stops a service, exchanges its environment and starts it: `swap`, one operation for all three.

While the service is down nothing waits for a controller, and nothing is done that could have been
done before.
"""

from __future__ import annotations

from typing import Any

from blocks.supervisor.start import LAUNCHED, prepare, start
from blocks.supervisor.switch import switch
from blocks.supervisor.work import Work


def swap(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Do what `switch` and `start` do, and return what `start` does.

    Raises:
        Failure: As these raise it. The unit may be stopped then.
    """
    starting = work.part("start")
    if starting.recall(LAUNCHED) is None:
        prepare(arguments["unit"])
        switch(arguments, work)
    return start({**arguments, "prepared": True}, starting)
