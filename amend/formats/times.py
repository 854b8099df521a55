"""Times as text: RFC 3339 in UTC with a `Z`; read more generously than written."""

from datetime import UTC, datetime


def rfc3339(at: datetime) -> str:
    """Milliseconds where there are any, none where there are none."""
    utc = at if at.tzinfo is UTC else at.astimezone(UTC)
    spec = "milliseconds" if utc.microsecond else "seconds"
    return utc.isoformat(timespec=spec)[: -len("+00:00")] + "Z"


def parse_time(text: str) -> datetime | None:
    """An ISO 8601 date or date-time, UTC where it names no zone; None when it is neither."""
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
