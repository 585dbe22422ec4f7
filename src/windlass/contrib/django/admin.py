"""Runs in Django's admin, to look at: a list with filters, and a page for each run.

A site of your own shows them too: `site.register(Run, RunAdmin)`.
"""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path

from windlass.contrib.django import get_app
from windlass.contrib.django.models import Run
from windlass.contrib.django.runs_page import describe_list, describe_run
from windlass.errors import RunNotFound, UsageError, WindlassError


@admin.register(Run)
class RunAdmin(admin.ModelAdmin):
    """Shows runs to users with the permission `windlass.view_run`. Nothing can be changed here."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Runs are made by code."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """They are only shown."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """They are only shown."""
        return False

    def get_urls(self) -> list[Any]:
        """The list, under the name that the index links to, and the page of a run."""
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="windlass_run_changelist"),
            path("<uuid:id>/", view(self.run_view), name="windlass_run_change"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """A page of runs, newest first."""
        self._check(request)
        status = HTTPStatus.OK
        try:
            content = describe_list(get_app(), request.GET)
        except WindlassError as error:
            usage = isinstance(error, UsageError)
            status = HTTPStatus.BAD_REQUEST if usage else HTTPStatus.SERVICE_UNAVAILABLE
            content = {"error": str(error)}
        content = {"title": "Runs", **content, **(extra_context or {})}
        return self._page(request, "list", content, status)

    def run_view(self, request: HttpRequest, id: UUID) -> HttpResponse:
        """All that is known of one run."""
        self._check(request)
        try:
            content = describe_run(get_app(), str(id))
        except RunNotFound as error:
            raise Http404(str(error)) from error
        except WindlassError as error:
            content = {"title": f"Run {id}", "error": str(error)}
            return self._page(request, "detail", content, HTTPStatus.SERVICE_UNAVAILABLE)
        return self._page(request, "detail", content, HTTPStatus.OK)

    def _check(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _page(
        self, request: HttpRequest, name: str, content: dict[str, Any], status: HTTPStatus
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "dashboard_url": getattr(settings, "WINDLASS_DASHBOARD_URL", None),
            **content,
        }
        request.current_app = self.admin_site.name
        template = f"admin/windlass/run/{name}.html"
        return TemplateResponse(request, template, context, status=status)
