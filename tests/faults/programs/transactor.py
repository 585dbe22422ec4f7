"""Enqueues in transactions and waits, with all of them open, for whoever kills it: URL CALLER…"""

import sys

from tests.fixtures.callers import CALLERS, make_app

url, *names = sys.argv[1:]
for name in names:
    caller = CALLERS[name](make_app(url), url)
    caller.begin()
    caller.execute("insert into orders values (1)")
    sys.stdout.write(f"{name} {caller.enqueue(1).id}\n")
    sys.stdout.flush()
sys.stdin.read()
