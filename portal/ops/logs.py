"""One JSON object a log line, for installations that collect logs."""

from __future__ import annotations

import structlog


def build_json_formatter() -> structlog.stdlib.ProcessorFormatter:
    """Return a formatter for records of the standard library's logging."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )
