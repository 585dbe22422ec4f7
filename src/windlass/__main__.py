"""The program `windlass`, which is also `python -m windlass`.

A worker may be told to stop as soon as it exists. So before anything else, even click, is
imported, the signals are held until the command is known that answers them.
"""

import sys

from windlass.process import STOPPABLE, hold_signals, open_streams


def main() -> None:
    """Run the command."""
    if not STOPPABLE.isdisjoint(sys.argv):
        hold_signals()
    open_streams()
    from windlass.cli import main as command

    command()


if __name__ == "__main__":
    main()
