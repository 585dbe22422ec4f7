"""Finds mistakes in handlers with durable steps, from their source alone: `windlass check`.

Nothing is imported or run. A rule is a function of the contexts of one file (`contexts.py`) and
yields problems; `check.py` has the list of them. They report what is certain: where a name may
stand for something else, or a function may be called from a step, they say nothing.

`tree.py` knows who contains whom and what names stand for; `flow.py` what can run after what.
"""

from windlass.lint.check import check_source
from windlass.lint.files import Report, check_paths
from windlass.lint.finding import RULES, Finding

__all__ = ["RULES", "Finding", "Report", "check_paths", "check_source"]
