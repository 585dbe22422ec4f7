"""The demo's applications, for its worker processes: `windlass worker --app …:app`."""

from windlass.cli.demo.jobs import make_app
from windlass.config import Settings

app = make_app(Settings.load().url)
risky = make_app(Settings.load().url, lease="2s")
"""Its workers are going to die: their runs should not be missed for long."""
