"""Argument vectors, built and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from blocks.supervisor.scope import now

Argv = tuple[str, ...]

_BIND = 'mount --bind -- "$1" "$2" && shift 2 && exec "$@"'


def _systemctl(*words: str) -> Argv:
    return ("systemctl", *now().flags, *words)


def show(unit: str, properties: Sequence[str]) -> Argv:
    """Read properties of a unit."""
    return _systemctl("show", "--no-pager", f"--property={','.join(properties)}", "--", unit)


def show_all_services(properties: Sequence[str]) -> Argv:
    """Read properties of all services that systemd has loaded."""
    return _systemctl("show", "--no-pager", f"--property={','.join(properties)}", "*.service")


def stop(unit: str) -> Argv:
    """Ask for a unit to be stopped, without waiting."""
    return _systemctl("stop", "--no-block", "--", unit)


def stop_and_wait(unit: str) -> Argv:
    """Have a unit stopped and wait until it is."""
    return _systemctl("stop", "--", unit)


def start(unit: str) -> Argv:
    """Ask for a unit to be started, without waiting."""
    return _systemctl("start", "--no-block", "--", unit)


def start_and_wait(unit: str) -> Argv:
    """Have a unit started, unless it is, and wait until it is."""
    return _systemctl("start", "--", unit)


def reset_failed(unit: str) -> Argv:
    """Forget a unit's earlier failures and restarts."""
    return _systemctl("reset-failed", "--", unit)


def daemon_reload() -> Argv:
    """Have systemd read unit files again."""
    return _systemctl("daemon-reload")


def show_environment() -> Argv:
    """Read the variables that systemd gives to every service."""
    return ("systemctl", *now().flags, "show-environment")


def enable_now(unit: str) -> Argv:
    """Have a unit started, now and after each reboot."""
    return _systemctl("enable", "--quiet", "--now", "--", unit)


def disable(unit: str) -> Argv:
    """Have a unit no longer started after a reboot."""
    return _systemctl("disable", "--quiet", "--", unit)


def transient(unit: str, description: str, command: Sequence[str]) -> Argv:
    """Start a command as a transient service that nobody else's end can end."""
    return (
        "systemd-run",
        *now().flags,
        f"--unit={unit}",
        f"--description={description}",
        "--quiet",
        "--property=Type=exec",
        "--property=TimeoutStopSec=10",
        "--",
        *command,
    )


def service_property(unit: str, name: str) -> Argv:
    """Read one property over D-Bus, where argument vectors keep their shape."""
    escaped = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):02x}" for c in unit)
    return (
        "busctl",
        *now().flags,
        "--json=short",
        "get-property",
        "org.freedesktop.systemd1",
        f"/org/freedesktop/systemd1/unit/{escaped}",
        "org.freedesktop.systemd1.Service",
        name,
    )


def journal(matches: Sequence[str], *options: str) -> Argv:
    """Read the journal as JSON; `--all` since long fields are else left out."""
    fields = "MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_PID,_COMM,MESSAGE_ID,EXIT_CODE,EXIT_STATUS"
    more = ",".join((now().own, "_SYSTEMD_INVOCATION_ID", *now().told))
    return (
        "journalctl",
        "--no-pager",
        "--quiet",
        "--all",
        "--output=json",
        f"--output-fields={fields},{more}",
        *options,
        *matches,
    )


def as_user(uid: int, gid: int, command: Sequence[str]) -> Argv:
    """Run a command as another user, with that user's groups; only root is ever another one."""
    if now().user is not None:
        return tuple(command)
    return ("setpriv", f"--reuid={uid}", f"--regid={gid}", "--init-groups", "--", *command)


def bound(copy: str, over: str, command: Sequence[str]) -> Argv:
    """Run a command in a mount namespace of its own where `copy` lies over the path `over`."""
    inside = ("/bin/sh", "-c", _BIND, "sh", copy, over, *command)
    return (*private_mounts(), *inside)


def private_mounts() -> Argv:
    """Begin a command that has a mount namespace of its own."""
    rights = () if now().user is None else ("--user", "--map-root-user")
    return ("unshare", *rights, "--mount", "--propagation=private", "--")


def lingers(user: str) -> Argv:
    """Ask whether a user's services go on without a login."""
    return ("loginctl", "show-user", "--property=Linger", "--value", "--", user)


def copy_tree(source: str, target: str) -> Argv:
    """Copy a folder with everything, by reference where the file system can."""
    return ("cp", "-a", "--reflink=auto", "-T", "--", source, target)


def uv_sources(indexes: Sequence[str], find_links: Sequence[str], first: Sequence[str]) -> Argv:
    """Name the indexes, first one first and the last one as default; none: as uv is set up.

    Those of `first` come before them all, also before the ones that uv is set up with.
    """
    default = (f"--default-index={indexes[-1]}",) if indexes else ()
    others = tuple(f"--index={url}" for url in (*first, *indexes[:-1]))
    return (*others, *default, *(f"--find-links={url}" for url in find_links))


def uv_compile(
    uv: str, python: str, sources: Sequence[str], constraints: str | None, wheels: Sequence[str]
) -> Argv:
    """Resolve requirements, given on standard input, into a lock with hashes.

    Of the packages named by `wheels` nothing is built.
    """
    more = ("--constraint", constraints) if constraints else ()
    ready = tuple(f"--only-binary={name}" for name in wheels)
    fixed = ("--generate-hashes", "--no-header", "--no-annotate", "--color=never", "--no-progress")
    return (uv, "pip", "compile", "-", f"--python={python}", *fixed, *more, *ready, *sources)


def uv_install_lock(uv: str, python: str, sources: Sequence[str]) -> Argv:
    """Reinstall everything in the lock that is given on standard input."""
    fixed = ("--reinstall", "--no-deps", "--require-hashes", "--color=never", "--no-progress")
    return (uv, "pip", "install", f"--python={python}", *fixed, *sources, "-r", "-")


def uv_install(uv: str, python: str, packages: Sequence[str], sources: Sequence[str]) -> Argv:
    """Reinstall single packages."""
    fixed = ("--reinstall", "--no-deps", "--color=never", "--no-progress")
    return (uv, "pip", "install", f"--python={python}", *fixed, *sources, "--", *packages)


def uv_uninstall(uv: str, python: str, packages: Sequence[str]) -> Argv:
    """Remove single packages; one that is not there is no error."""
    return (uv, "pip", "uninstall", f"--python={python}", "--color=never", "--", *packages)


def vllm_download_kernels(vllm: str) -> Argv:
    """Have vLLM fetch the kernels that it needs."""
    return (vllm, "download-kernels")


def rename(path: str, new: str) -> Argv:
    """Give a path another name, which is free."""
    return ("mv", "--no-target-directory", "--no-clobber", "--", path, new)


def import_module(python: str, module: str) -> Argv:
    """Import one module in an interpreter of its own."""
    code = "import importlib, sys; importlib.import_module(sys.argv[1])"
    return (python, "-c", code, module)


def bench_serve(
    vllm: str, url: str, model: str, tokenizer: str | None, shape: Sequence[int], result: str
) -> Argv:
    """Run vLLM's own benchmark against the served model; shape is prompts, input, output."""
    prompts, input_len, output_len = shape
    return (
        *(vllm, "bench", "serve", "--base-url", url, "--model", model),
        *(("--tokenizer", tokenizer) if tokenizer else ()),
        *("--dataset-name", "random", "--num-prompts", str(prompts)),
        *("--random-input-len", str(input_len), "--random-output-len", str(output_len)),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--temperature", "0", "--seed", "0"),
        *("--ignore-eos", "--save-result", "--result-filename", result),
    )


def py_spy_dump(py_spy: Sequence[str], pid: int) -> Argv:
    """Show where the Python code of a process is."""
    return (*py_spy, "dump", "--pid", str(pid))
