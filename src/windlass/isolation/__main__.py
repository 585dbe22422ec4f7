"""`python -m windlass.isolation FD`: a child process of a worker."""

import sys

from windlass.isolation.program import main

if __name__ == "__main__":
    main(int(sys.argv[1]))
