"""The line that shows how a start gets on now. Nothing else is imported: a terminal needs it."""

import logging

LIVE = logging.getLogger("vllm_redeploy.live")
"""Told one line after the other of which only the last one counts; a terminal shows it."""
LIVE.propagate = False
LIVE.setLevel(logging.INFO)
