"""The worlds that calls are made in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.egress.certificates import make_certificates
from tests.egress.worlds import World, injected, kinds, namespaces


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with certificates, and room for what the worlds leave."""
    folder = tmp_path_factory.mktemp("egress")
    make_certificates(folder)
    return folder


@pytest.fixture(scope="session", params=kinds())
async def world(request: pytest.FixtureRequest, certificates: Path) -> AsyncIterator[World]:
    """Each world that this machine allows."""
    made = injected if request.param == "injected" else namespaces
    async with made(certificates) as found:
        yield found
