"""The typed names accept what they should and refuse the rest with a sentence."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from blocks import types


def accepted(kind: Any, value: object) -> Any:
    return TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(
    ("kind", "given", "meant"),
    [
        (types.UnitName, "vllm-kimi-k25", "vllm-kimi-k25.service"),
        (types.UnitName, "vllm@a.service", "vllm@a.service"),
        (types.AbsolutePath, "/opt/vllm/env", "/opt/vllm/env"),
        (types.PackageName, "FlashInfer_Cubin", "flashinfer-cubin"),
        (types.HostAddress, "gpu-17.example.com", "gpu-17.example.com"),
        (types.HostAddress, "fe80::1", "fe80::1"),
        (types.Glob, "/var/d/*_debug_*.pt", "/var/d/*_debug_*.pt"),
        (types.ServiceName, "kimi-k25", "kimi-k25"),
        (types.Port, 8000, 8000),
        (types.Whole, "600", 600),
        (types.Number, 1, 1.0),
    ],
)
def test_accepted(kind: Any, given: object, meant: object) -> None:
    assert accepted(kind, given) == meant


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (types.UnitName, "a b"),
        (types.UnitName, "-x"),
        (types.UnitName, "x;reboot"),
        (types.UnitName, "a\n"),
        (types.AbsolutePath, "opt/vllm"),
        (types.AbsolutePath, "/"),
        (types.AbsolutePath, "/opt/../etc"),
        (types.AbsolutePath, "/opt//x"),
        (types.AbsolutePath, "/opt/x/"),
        (types.AbsolutePath, "/opt/\x1b[0m"),
        (types.PackageName, "x --index-url=y"),
        (types.HostAddress, "-oProxyCommand=x"),
        (types.HostAddress, "999.1.1.1"),
        (types.HostAddress, "a b"),
        (types.Glob, "/*.pt"),
        (types.Glob, "/var/**/*.pt"),
        (types.ServiceName, "Kimi"),
        (types.Port, 0),
        (types.Port, True),
        (types.Whole, False),
        (types.Number, True),
    ],
)
def test_refused(kind: Any, given: object) -> None:
    with pytest.raises(ValidationError):
        accepted(kind, given)


def test_the_form_knows_the_pattern() -> None:
    assert TypeAdapter(types.UnitName).json_schema()["pattern"] == types.UNIT_PATTERN
