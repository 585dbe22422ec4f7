"""`python -m windlass.isolation FD`: a child process of a worker."""

import sys

from windlass.process import disregard_signals, escape_output, open_streams

if __name__ == "__main__":
    disregard_signals()  # whoever tells a whole service to stop tells the worker, which tells us
    open_streams()
    escape_output()
    from windlass.isolation.program import main

    main(int(sys.argv[1]))
