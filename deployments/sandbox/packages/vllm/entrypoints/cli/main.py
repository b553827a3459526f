"""Stand-in for tests; not the real vLLM: the `vllm` command."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from ... import __version__


def main() -> None:
    """Run `vllm serve`, `vllm bench serve` or `vllm download-kernels`."""
    parser = argparse.ArgumentParser(prog="vllm", description="Stand-in for tests; not vLLM.")
    parser.add_argument("-v", "--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="{serve,bench,download-kernels}")
    _add_serve(commands.add_parser("serve", help="serve a model"))
    bench = commands.add_parser("bench", help="measure a server")
    _add_bench(bench.add_subparsers(required=True).add_parser("serve"))
    fetch = commands.add_parser("download-kernels", help="fetch FlashInfer's kernels")
    fetch.set_defaults(dispatch_function=_download_kernels)
    args = parser.parse_args()
    args.dispatch_function(args)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    from .serve import add_arguments, cmd

    add_arguments(parser)
    parser.set_defaults(dispatch_function=cmd)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    from ...benchmarks.serve import add_arguments, cmd

    add_arguments(parser)
    parser.set_defaults(dispatch_function=cmd)


def _download_kernels(args: argparse.Namespace) -> None:
    """Fetch as the real one does: flashinfer must be importable for it."""
    del args
    folder: Path = importlib.import_module("flashinfer.jit.env").FLASHINFER_CUBIN_DIR
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "decode.cubin").write_bytes(b"stand-in")
    print(f"Fetched 1 kernel into {folder}.")
