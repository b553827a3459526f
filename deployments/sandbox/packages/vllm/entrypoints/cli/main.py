"""Stand-in for tests; not the real vLLM: the `vllm` command."""

from __future__ import annotations

import argparse

from ... import __version__


def main() -> None:
    """Run `vllm serve` or `vllm bench serve`."""
    parser = argparse.ArgumentParser(prog="vllm", description="Stand-in for tests; not vLLM.")
    parser.add_argument("-v", "--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="{serve,bench}")
    _add_serve(commands.add_parser("serve", help="serve a model"))
    bench = commands.add_parser("bench", help="measure a server")
    _add_bench(bench.add_subparsers(required=True).add_parser("serve"))
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
