"""A systemd that takes every operation and carries out none."""


class Nowhere:
    """Launches nothing, and has it run for ever."""

    def start(self, operation: str) -> None:
        del operation

    def running(self, operation: str) -> bool:
        return bool(operation)

    def end(self, operation: str) -> None:
        del operation

    def forget(self, operation: str) -> None:
        del operation
