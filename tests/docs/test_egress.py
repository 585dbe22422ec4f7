"""The page on calls to other hosts: its examples, run without a network."""

from __future__ import annotations

import pytest

from tests.docs.conftest import Load
from tests.fixtures.pages import Examples
from windlass.egress import EgressPolicy
from windlass.testing import drain


@pytest.mark.examples("docs/egress.md", "hooks.py")
def test_a_handler_calls_through_the_guard(load: Load) -> None:
    hooks = load("hooks.py")
    assert hooks.save_url("https://hooks.example/a") == "saved"
    assert "port" in hooks.save_url("http://hooks.example/a")
    assert "private name" in hooks.save_url("https://localhost/a")
    run = hooks.fetch.using(max_attempts=1).enqueue(url="https://127.0.0.1/")
    drain(hooks.app)
    error = run.refresh().error
    assert error.type == "windlass.errors.EgressDenied"


@pytest.mark.examples("docs/egress.md", "policies.py")
def test_policies_of_the_page(examples: Examples) -> None:
    names = examples.run("policies.py")
    assert names["at_home"] == EgressPolicy(development=True)
    assert names["inside"].ports == (443, 8443)
