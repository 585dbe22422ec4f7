"""The page of runs in Django's admin, in a real project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.embedding.django_project import LONG, databases, make_project, manage
from tests.fixtures.pages import Examples

pytestmark = pytest.mark.timeout(LONG)

SETTINGS = """
INSTALLED_APPS += [
    "django.contrib.admin", "django.contrib.sessions", "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIGRATION_MODULES |= {"admin": None, "sessions": None}
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]
ROOT_URLCONF = "orders.urls"
STATIC_URL = "static/"
ALLOWED_HOSTS = ["*"]
"""
URLS = """
from django.contrib import admin
from django.urls import path

site = admin.AdminSite(name="own")
{example}
urlpatterns = [path("admin/", admin.site.urls), path("own/", site.urls)]
"""
OWN_SITE = "Runs in the admin"
JOBS = """
from windlass.contrib.django import get_app

app = get_app()


@app.job(max_attempts=2)
def fail(text: str) -> None:
    raise ValueError("it failed")


@app.job(queue="mail")
def send(number: int) -> dict[str, int]:
    return {"sent": number}
"""
TESTS = """
from unittest import mock

from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import TestCase, override_settings
from django.urls import reverse
from orders.jobs import fail, send
from windlass import testing
from windlass.contrib.django.testing import windlass_in_test
from windlass.errors import StoreUnavailable

LIST = "/admin/windlass/run/"


class AdminTests(TestCase):
    def setUp(self):
        self.app = self.enterContext(windlass_in_test())
        user = User.objects.create(username="ada", is_staff=True)
        user.user_permissions.add(Permission.objects.get(codename="view_run"))
        self.client.force_login(user)

    def page(self, path, status=200):
        answer = self.client.get(path)
        self.assertEqual(answer.status_code, status, answer.content)
        return answer.content.decode()

    def shown(self, query=""):
        page = self.page(LIST + query)
        return [run.id for run in self.app.list(limit=1000) if run.id in page]

    def test_who_may_see_it(self):
        self.client.force_login(User.objects.create(username="eve", is_staff=True))
        run = send.enqueue(1)
        self.page(LIST, 403)
        self.page(f"{LIST}{run.id}/", 403)
        self.assertNotIn(LIST, self.page("/admin/"))
        self.client.logout()
        self.assertIn("/login/", self.client.get(LIST).url)

    def test_way_from_the_index(self):
        self.assertIn(f'href="{LIST}"', self.page("/admin/"))
        self.assertEqual(reverse("admin:windlass_run_changelist"), LIST)
        self.assertIn("There are no runs.", self.page(LIST))
        run = send.enqueue(1)
        self.assertIn(f'href="{LIST}{run.id}/"', self.page(LIST))

    def test_site_of_ones_own(self):
        run = send.enqueue(1)
        self.assertIn(f'href="/own/windlass/run/{run.id}/"', self.page("/own/windlass/run/"))
        self.assertIn('href="/own/windlass/run/"', self.page(f"/own/windlass/run/{run.id}/"))

    def test_filters(self):
        sent, failed = send.enqueue(1), fail.enqueue("x")
        testing.drain(self.app, with_scheduled=True)
        waiting = send.using(queue="other").enqueue(2)
        self.assertEqual(self.shown(), [waiting.id, failed.id, sent.id])
        self.assertEqual(self.shown("?status=failed"), [failed.id])
        self.assertEqual(self.shown("?job=send"), [waiting.id, sent.id])
        self.assertEqual(self.shown("?queue=mail"), [sent.id])
        self.assertEqual(self.shown("?job=send&status=succeeded&queue="), [sent.id])
        page = self.page(f"{LIST}?status=canceled&queue=unheard")
        self.assertIn("There are no runs like these.", page)
        self.assertIn('<option value="unheard" selected>', page)
        self.assertIn(">failed (1)</option>", page)
        self.assertIn("odd", self.page(f"{LIST}?status=odd", 400))

    def test_pages(self):
        runs = [send.enqueue(number).id for number in range(60)][::-1]
        self.assertEqual(self.shown("?job=send"), runs[:50])
        self.assertIn(f"?job=send&amp;before={runs[49]}", self.page(f"{LIST}?job=send"))
        older = f"?job=send&before={runs[49]}"
        self.assertEqual(self.shown(older), runs[50:])
        page = self.page(LIST + older)
        self.assertIn('href="?job=send"', page)
        self.assertNotIn("Older", page)

    def test_run_that_failed(self):
        run = fail.using(key="k", tags=["a", "b"]).enqueue("<script>alert(1)</script>")
        testing.drain(self.app, with_scheduled=True)
        page = self.page(f"{LIST}{run.id}/")
        self.assertNotIn("<script>alert", page)
        self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt;", page)
        self.assertEqual(page.count("ValueError: it failed</td>"), 2)
        self.assertEqual(page.count("orders/jobs.py"), 2)
        for text in ("exhausted", "a, b", "run.enqueued", "run.retrying", "run.failed"):
            self.assertIn(text, page)

    def test_run_that_succeeded(self):
        run = send.using(metadata={"who": "ada"}).enqueue(1)
        self.assertNotIn("Result", self.page(f"{LIST}{run.id}/"))
        testing.drain(self.app)
        page = self.page(f"{LIST}{run.id}/")
        for text in ("&quot;sent&quot;: 1", "&quot;who&quot;: &quot;ada&quot;", "Result"):
            self.assertIn(text, page)

    def test_unknown_run(self):
        self.page(f"{LIST}0197c0de-0000-7000-8000-000000000000/", 404)
        self.page(f"{LIST}123/", 404)

    def test_nothing_can_be_changed(self):
        User.objects.filter(username="ada").update(is_superuser=True)
        run = send.enqueue(1)
        for path in ("add/", f"{run.id}/delete/", f"{run.id}/change/"):
            self.page(LIST + path, 404)
        self.client.post(LIST, {"action": "delete_selected", "_selected_action": run.id})
        self.assertEqual(run.refresh().status, "queued")

    def test_store_that_is_away(self):
        run = send.enqueue(1)
        away = StoreUnavailable("it is away")
        with mock.patch.object(type(self.app), "list", side_effect=away):
            self.assertIn("it is away", self.page(LIST, 503))
        with mock.patch.object(type(self.app), "get", side_effect=away):
            self.assertIn("it is away", self.page(f"{LIST}{run.id}/", 503))

    def test_link_to_the_dashboard(self):
        run = send.enqueue(1)
        for path in (LIST, f"{LIST}{run.id}/"):
            self.assertNotIn("Dashboard", self.page(path))
            with override_settings(WINDLASS_DASHBOARD_URL="https://jobs.example/"):
                self.assertIn('href="https://jobs.example/">Dashboard', self.page(path))

    @override_settings(USE_TZ=False)
    def test_times_without_zones(self):
        run = send.enqueue(1)
        testing.drain(self.app)
        self.page(LIST)
        self.page(f"{LIST}{run.id}/")

    def test_model_without_a_table_is_in_nobodys_way(self):
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)
        call_command("dumpdata", "windlass", verbosity=0)
        call_command("dumpdata", "windlass", use_base_manager=True, verbosity=0)
"""


@pytest.mark.examples("docs/django.md", OWN_SITE)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_suite_of_the_admin_passes(
    request: pytest.FixtureRequest, tmp_path: Path, examples: Examples, store: str
) -> None:
    if store == "postgres":
        database = databases(request.getfixturevalue("pg_empty"))
        settings = f"{SETTINGS}{database}WINDLASS_DATABASE = 'default'\n"
    else:
        settings = f"{SETTINGS}WINDLASS_URL = 'sqlite:///{tmp_path}/windlass.db'\n"
    urls = URLS.format(example=examples[OWN_SITE])
    project = make_project(tmp_path, settings, jobs=JOBS, urls=urls, tests=TESTS)
    assert "\nOK" in manage(project, "test", "--noinput")
