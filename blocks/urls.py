"""Addresses of package indexes."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator


def _index_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https", "file"):
        raise ValueError("an index is an http, https or file URL")
    if parts.username or parts.password:
        raise ValueError("credentials do not belong in an index URL; they would be logged")
    if not value.isprintable() or " " in value:
        raise ValueError("an index URL has no spaces and no control characters")
    return value.rstrip("/")


IndexUrl = Annotated[str, AfterValidator(_index_url)]
"""An http, https or file URL without credentials and without a trailing slash."""
