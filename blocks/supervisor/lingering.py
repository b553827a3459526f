"""What a user's own services need of the host, so that they outlive a login: asked at the lock."""

from __future__ import annotations

from blocks.supervisor import commands, processes, scope
from blocks.supervisor.failures import Refusal


def require() -> None:
    """Ask for what root has without asking.

    Raises:
        Refusal: The user's systemd ends with the last login, or the journal cannot be read.
    """
    user = scope.now().user
    if user is None:
        return
    shown = processes.run(commands.lingers(user))
    if shown.output.strip() != "yes":
        raise Refusal(
            "no-linger",
            f"The services of {user} end when {user} logs out, and do not begin at a boot: "
            "lingering is off.",
            f"Once, as root: loginctl enable-linger {user}",
        )
    read = processes.run(commands.journal((scope.now().teller,), "--lines=1"))
    if read.exit != 0:
        raise Refusal(
            "no-journal",
            f"{user} cannot read the journal of {user}'s own services.",
            f"Once, as root: usermod --append --groups systemd-journal {user}",
        )
