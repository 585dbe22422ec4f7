"""What Django's admin needs to show runs: a model without a table, and its permission.

Runs are in Windlass' store, not in Django's database. The model exists for the admin alone: it
gives the page a place in the index, and the permission `windlass.view_run`.
"""

from typing import Any

from django.db import models


class NoRows(models.Manager):
    """Never asks the database: `dumpdata` and the like find nothing."""

    def get_queryset(self) -> Any:
        """No rows."""
        return super().get_queryset().none()


class Run(models.Model):
    """The page of runs in the admin. To read runs, use `get_app().list()`."""

    id = models.UUIDField(primary_key=True)
    objects = NoRows()

    class Meta:
        """No table, and nothing that could be changed."""

        managed = False
        default_permissions = ("view",)
        base_manager_name = "objects"
        verbose_name = "run"
        verbose_name_plural = "runs"
