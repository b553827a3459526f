"""Stops a service, exchanges its environment and starts it: `swap`, one operation for all three.

While the service is down nothing waits for a controller, and nothing is done that could have been
done before.
"""

from __future__ import annotations

import time
from typing import Any

from blocks.supervisor import processes
from blocks.supervisor.secrets import redacted_argv
from blocks.supervisor.start import LAUNCHED, prepare, start
from blocks.supervisor.switch import switch
from blocks.supervisor.work import Work


def swap(arguments: dict[str, Any], work: Work) -> dict[str, Any]:
    """Do what `switch` and `start` do.

    Returns:
        What `start` returns, and the `commands` that were run while the service was stopped.

    Raises:
        Failure: As these raise it. The unit may be stopped then.
    """
    starting, began = work.part("start"), time.time()
    if starting.recall(LAUNCHED) is None:
        prepare(arguments["unit"])
        began = time.time()
        switch(arguments, work)
    launched = start({**arguments, "prepared": True}, starting)
    commands = [
        {"after_seconds": round(at - began, 3), "argv": redacted_argv(argv)}
        for at, argv in processes.RAN
        if at >= began
    ]
    return {**launched, "commands": commands}
