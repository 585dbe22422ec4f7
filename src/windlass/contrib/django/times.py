"""Times as Windlass has them, in UTC, and as the project has them."""

from datetime import UTC, datetime

from django.conf import settings
from django.utils import timezone


def local(moment: datetime | None) -> datetime | None:
    """A time for the project: without a zone, local, if USE_TZ is off."""
    if moment is None or settings.USE_TZ:
        return moment
    naive: datetime = timezone.make_naive(moment)
    return naive


def instant(moment: datetime) -> datetime:
    """A time of the project's for Windlass."""
    aware: datetime = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return aware.astimezone(UTC)
