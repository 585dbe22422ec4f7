"""Wake-ups: within a process, across threads and processes, and where there are no sockets."""

import asyncio
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.sqlite.kit import run_script, start_script
from windlass.sources import ManualSources
from windlass.store.sqlite import wakeups
from windlass.store.sqlite.store import SqliteStore

LONG = 30.0

NOTIFY = """
import sys
from windlass.store.sqlite.store import SqliteStore
SqliteStore(sys.argv[1]).notify()
"""

LISTEN = """
import asyncio, os, sys
from windlass.store.sqlite.store import SqliteStore

async def main():
    listener = await SqliteStore(sys.argv[1]).listen()
    print("listening", flush=True)
    woken = await listener.wait(30)
    if "die" in sys.argv:
        os._exit(0)
    await listener.close()
    print(woken)

asyncio.run(main())
"""


def wake_folder(path: Path) -> Path:
    """Where the sockets are."""
    return path.with_name(path.name + "-wake")


def sockets(path: Path) -> list[str]:
    """The names of the sockets there."""
    folder = wake_folder(path)
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


async def test_nobody_calls(store: SqliteStore) -> None:
    listener = await store.listen()
    assert await listener.wait(0) is False
    assert await listener.wait(0.001) is False


async def test_listener_of_the_same_process_is_woken(store: SqliteStore) -> None:
    listener = await store.listen()
    waiting = asyncio.create_task(listener.wait(LONG))
    await asyncio.sleep(0)
    await store.anotify()
    assert await waiting is True
    assert await listener.wait(0.001) is False


async def test_hint_before_the_wait_is_kept(store: SqliteStore) -> None:
    listener = await store.listen()
    store.notify()
    store.notify()
    assert await listener.wait(LONG) is True


async def test_every_listener_is_woken(store: SqliteStore) -> None:
    listeners = [await store.listen() for _ in range(3)]
    store.notify()
    assert await asyncio.gather(*(one.wait(LONG) for one in listeners)) == [True] * 3


async def test_listener_is_woken_from_another_thread(store: SqliteStore) -> None:
    listener = await store.listen()
    waiting = asyncio.create_task(listener.wait(LONG))
    await asyncio.sleep(0)
    thread = threading.Thread(target=store.notify)
    thread.start()
    assert await waiting is True
    thread.join()


async def test_listener_is_woken_by_another_process(store: SqliteStore, path: Path) -> None:
    listener = await store.listen()
    loop = asyncio.get_running_loop()
    sent = loop.run_in_executor(None, run_script, NOTIFY, path)
    assert await listener.wait(LONG) is True
    await sent


def test_other_processes_are_woken(path: Path) -> None:
    processes = [start_script(LISTEN, path) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
    SqliteStore(path).notify()
    for process in processes:
        out, err = process.communicate(timeout=50)
        assert out == "True\n", err
    assert sockets(path) == []


def test_socket_of_a_dead_process_is_removed(path: Path, sources: ManualSources) -> None:
    process = start_script(LISTEN, path, "die")
    assert process.stdout is not None
    process.stdout.readline()
    SqliteStore(path).notify()
    process.communicate(timeout=50)
    assert len(sockets(path)) == 1
    SqliteStore(path).notify()
    assert sockets(path) == []


async def test_socket_goes_with_its_listener(store: SqliteStore, path: Path) -> None:
    listener = await store.listen()
    assert len(sockets(path)) == 1
    assert stat.S_IMODE(wake_folder(path).stat().st_mode) == 0o700
    await listener.close()
    assert sockets(path) == []


async def test_closing_the_store_ends_the_wait(path: Path) -> None:
    store = SqliteStore(path)
    listener = await store.listen()
    waiting = asyncio.create_task(listener.wait(LONG))
    await asyncio.sleep(0)
    await store.aclose()
    await waiting
    assert sockets(path) == []


async def test_closing_the_store_leaves_the_listener_of_another_running_loop_alone(
    path: Path,
) -> None:
    """A worker in another thread would only poll from then on."""
    store = SqliteStore(path)
    listening, again, woken = threading.Event(), threading.Event(), []

    async def other() -> None:
        listener = await store.listen()
        listening.set()
        woken.append(await listener.wait(LONG))
        again.set()
        woken.append(await listener.wait(LONG))
        await listener.close()

    thread = threading.Thread(target=asyncio.run, args=(other(),))
    thread.start()
    assert await asyncio.to_thread(listening.wait, LONG)
    await store.aclose()
    assert len(sockets(path)) == 1
    store.notify()
    assert await asyncio.to_thread(again.wait, LONG)
    run_script(NOTIFY, path)
    await asyncio.to_thread(thread.join, LONG)
    assert woken == [True, True]
    assert sockets(path) == []


async def test_closing_the_store_ends_what_a_closed_loop_left(path: Path) -> None:
    store = SqliteStore(path)
    listener = await asyncio.to_thread(asyncio.run, store.listen())
    assert len(sockets(path)) == 1
    await store.aclose()
    assert sockets(path) == []
    await listener.close()  # it is over already


async def test_listener_of_a_loop_that_pauses_is_closed_when_it_goes_on(path: Path) -> None:
    store = SqliteStore(path)
    loop = asyncio.new_event_loop()
    await asyncio.to_thread(loop.run_until_complete, store.listen())
    await store.aclose()
    assert len(sockets(path)) == 1  # its loop alone may touch it
    await asyncio.to_thread(loop.run_until_complete, asyncio.sleep(0))
    assert sockets(path) == []
    loop.close()


async def test_bursts_become_one(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await SqliteStore(path).listen()
    sent = []
    monkeypatch.setattr(wakeups, "_send", lambda sender, address: sent.append(address))
    now = 1000.0
    monkeypatch.setattr(wakeups, "time", SimpleNamespace(monotonic=lambda: now))
    for _ in range(100):
        store.notify()
    assert len(sent) == 1
    now += wakeups.COALESCE_SECONDS * 0.99
    store.notify()
    assert len(sent) == 1
    now += wakeups.COALESCE_SECONDS * 0.02
    await store.anotify()
    assert len(sent) == 2
    await other.close()


async def test_path_too_long_for_a_socket_falls_back_to_polling(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    store = SqliteStore(folder / "w.db")
    listener = await store.listen()
    assert not wake_folder(folder / "w.db").exists()
    assert await listener.wait(0.001) is False
    store.notify()
    assert await listener.wait(LONG) is True  # the same process needs no socket
    await store.aclose()


async def test_folder_that_cannot_be_made_falls_back_to_polling(
    store: SqliteStore, path: Path
) -> None:
    wake_folder(path).touch()
    listener = await store.listen()
    store.notify()
    assert await listener.wait(LONG) is True


def test_notify_without_a_folder_is_silent(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "none" / "w.db").notify()
