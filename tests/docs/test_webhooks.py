"""The page for receivers of webhooks: its programs, called as a sender calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.docs.conftest import Load
from tests.fixtures.pages import Examples
from windlass.webhooks import new_secret, sign

PAGE = "docs/webhooks-receiving.md"
SECRET = new_secret()
BODY = b'{"type": "run.succeeded"}'


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKS_SECRET", SECRET)


def sent() -> list[tuple[bytes, dict[str, str], int]]:
    """What comes: a webhook, the same again, one that was changed, and one of a stranger."""
    headers = sign(BODY, id="evt_1", secrets=SECRET)
    stranger = sign(BODY, id="evt_2", secrets=new_secret())
    again = sign(BODY, id="evt_1", secrets=SECRET)
    return [(BODY, headers, 202), (BODY, again, 202), (BODY + b" ", headers, 401),
            (BODY, stranger, 401), (BODY, {}, 401)]  # fmt: skip


def runs_of(app: Any) -> list[tuple[str, Any]]:
    return [(run.key, run.input) for run in app.list()]


ONE = [("evt_1", {"event": {"type": "run.succeeded"}})]


@pytest.mark.examples(PAGE, "verified.py")
def test_a_signed_body_is_verified(examples: Examples, capsys: pytest.CaptureFixture[str]) -> None:
    examples.run("verified.py")
    assert capsys.readouterr().out.startswith("evt_1 20")


@pytest.mark.examples(PAGE, "fastapi_receiver.py")
@pytest.mark.usefixtures("secret")
def test_fastapi_receives(load: Load) -> None:
    page = load("fastapi_receiver.py")
    client = TestClient(page.api)
    for body, headers, status in sent():
        assert client.post("/hooks", content=body, headers=headers).status_code == status
    assert runs_of(page.app) == ONE


@pytest.mark.examples(PAGE, "flask_receiver.py")
@pytest.mark.usefixtures("secret")
def test_flask_receives(load: Load) -> None:
    page = load("flask_receiver.py")
    client = page.site.test_client()
    for body, headers, status in sent():
        assert client.post("/hooks", data=body, headers=headers).status_code == status
    assert runs_of(page.app) == ONE


DJANGO = """
import json, sys
from django.conf import settings
settings.configure(ALLOWED_HOSTS=["*"], DEFAULT_CHARSET="utf-8")
import django_receiver as page
from django.test import RequestFactory
for body, headers, status in json.loads(sys.stdin.read()):
    request = RequestFactory().post("/hooks", body, "application/json", headers=headers)
    found = page.receive(request)
    assert found.status_code == status, (found, found.content, status)
print(json.dumps([(run.key, run.input) for run in page.app.list()]))
"""


@pytest.mark.examples(PAGE, "django_receiver.py")
@pytest.mark.usefixtures("secret")
def test_django_receives(examples: Examples, tmp_path: Path) -> None:
    """In a process of its own: Django's settings are those of a process."""
    examples.write(tmp_path)
    given = json.dumps([(body.decode(), headers, status) for body, headers, status in sent()])
    done = subprocess.run(
        (sys.executable, "-c", DJANGO), cwd=tmp_path, input=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [list(one) for one in ONE]
