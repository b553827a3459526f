"""Secrets do not leave the host; what only looks like one does."""

import pytest

from blocks.supervisor.secrets import redacted, redacted_argv


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("Environment=HF_TOKEN=hf_abc", "Environment=HF_TOKEN=***"),
        ('Environment="VLLM_API_KEY=s3 cr3t" A=1', 'Environment="VLLM_API_KEY=***" A=1'),
        (
            "ExecStart=vllm serve m --api-key sk-1 --port 1",
            "ExecStart=vllm serve m --api-key *** --port 1",
        ),
        ("--api-key=sk-1", "--api-key=***"),
        ("db_password='a b'", "db_password=***"),
        (
            "--tokenizer=/m --max-num-batched-tokens=8192",
            "--tokenizer=/m --max-num-batched-tokens=8192",
        ),
        ("--tokenizer /m MONKEY=1", "--tokenizer /m MONKEY=1"),
    ],
)
def test_text(given: str, told: str) -> None:
    assert redacted(given) == told


def test_command_lines() -> None:
    argv = ["vllm", "serve", "--api-key", "sk 1", "--token=x", "--tokenizer", "/m", "--port", "1"]
    told = ["vllm", "serve", "--api-key", "***", "--token=***", "--tokenizer", "/m", "--port", "1"]
    assert redacted_argv(argv) == told
