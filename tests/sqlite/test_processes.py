"""Several processes on one file: no run is lost or done twice, nobody sees a locked file."""

from pathlib import Path

import apsw

from tests.sqlite.kit import new_run, start_script
from windlass.sources import Sources
from windlass.store.sqlite.store import SqliteStore

RUNS = 600

WORK = """
import sys
from tests.sqlite.kit import JOB, new_run, new_worker, succeeded
from windlass.domain.run import Want
from windlass.sources import Sources
from windlass.store.sqlite.store import SqliteStore

sources = Sources.system()
store = SqliteStore(sys.argv[1], sources=sources)
run, operations = store.run, store.operations
run(operations.register(new_worker(sys.argv[2]), 30.0))
want = Want(limit=7, jobs=(JOB,))
sys.stdin.readline()
done, number, ends = [], 0, []
while True:
    number += 1
    run(operations.enqueue([new_run(sources, key=f"{number}", queue="other", job="other")]))
    reply = run(operations.cycle(sys.argv[2], number, ends, want))
    assert not reply.lost and not reply.refused
    done += [claimed.id for claimed in reply.claimed]
    ends = [succeeded(claimed) for claimed in reply.claimed]
    if not ends:
        break
store.close()
print(*done)
"""


def test_processes_share_one_file(path: Path) -> None:
    sources = Sources.system()
    with SqliteStore(path, sources=sources) as store:
        store.run(store.operations.enqueue([new_run(sources) for _ in range(RUNS)]))
    processes = [start_script(WORK, path, f"w{number}") for number in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    done: list[str] = []
    for process in processes:
        out, err = process.communicate(timeout=50)
        assert process.returncode == 0, err
        done += out.split()
    assert len(done) == len(set(done)) == RUNS
    raw = apsw.Connection(str(path))
    assert raw.execute("pragma integrity_check").get == "ok"
    assert raw.execute("select count(*) from runs where status = 'succeeded'").get == RUNS
    assert raw.execute("select count(*) from leases").get == 0
    assert raw.execute("select count(*) from attempts").get == RUNS
    keys = raw.execute("select count(*), count(distinct run) from run_keys").fetchall()
    made = raw.execute("select count(*) from runs where job = 'other'").get
    assert keys == [(made, made)]
    raw.close()
