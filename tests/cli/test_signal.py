"""`windlass signal`, on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.durable_jobs import make_durable_app
from tests.cli.kit import fails, ok, ok_json, work
from windlass import Run, Windlass

NOBODY = "01a1e10b-f770-7fd2-92f1-1ed5f62d63b8"


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose runs wait."""
    found = make_durable_app(url)
    yield found
    found.close()


@pytest.fixture
def waiting(app: Windlass) -> Run:
    """A run that waits for the signal `paid`."""
    run = app.enqueue("order")
    work(app)
    assert run.refresh().status == "waiting"
    return run


def test_a_run_that_waits_goes_on(url: str, app: Windlass, waiting: Run) -> None:
    printed = ok("signal", waiting.id, "paid", "amount=7", "by=card", "--url", url)

    [sent] = waiting.signals()
    assert printed == f"{waiting.id} paid sent, as signal {sent.number}: the run goes on\n"
    work(app)
    assert waiting.refresh().result == {"amount": 7, "by": "card"}
    assert [signal.taken_by for signal in waiting.signals()] == ["paid"]


def test_a_signal_that_nobody_asks_for_yet_is_kept(url: str, app: Windlass, waiting: Run) -> None:
    early = app.enqueue("order")

    for run, name in ((early, "paid"), (waiting, "shipped")):
        printed = ok("signal", run.id, name, "1", "--url", url)
        assert f"{run.id} {name} sent, as signal " in printed
        assert printed.endswith(": the run takes it when it asks for it\n")
    assert waiting.refresh().status == "waiting"
    work(app)
    assert early.refresh().result == 1


def test_a_known_key_sends_nothing(url: str, app: Windlass) -> None:
    run = app.enqueue("order")
    ok("signal", run.id, "paid", "1", "--key", "invoice-1", "--url", url)

    printed = ok("signal", run.id, "paid", "2", "--key", "invoice-1", "--url", url)

    [sent] = run.signals()
    assert printed == (
        f"{run.id} nothing sent: paid with key invoice-1 is known, as signal {sent.number}\n"
    )


@pytest.mark.parametrize(
    ("given", "payload"),
    [
        ([], None),
        (["7"], 7),
        (["[1, true]"], [1, True]),
        (['"yes"'], "yes"),
        (["--", "-1.5"], -1.5),
        (["amount=7", "by=card"], {"amount": 7, "by": "card"}),
        (['{"amount": 7}', "by=card"], {"amount": 7, "by": "card"}),
        (["-"], {"from": "stdin"}),
        (["@payload.json"], {"from": "file"}),
    ],
)
def test_payloads(folder: Path, given: list[str], payload: Any) -> None:
    (folder / "payload.json").write_text('{"from": "file"}')
    app = make_durable_app("sqlite:///windlass.db")
    run = app.enqueue("order")

    ok("signal", run.id, "paid", *given, input='{"from": "stdin"}')

    found = ok_json("show", run.id, "--json")["signals"]
    assert [signal["payload"] for signal in found] == [payload]
    app.close()


def test_as_json(url: str, waiting: Run) -> None:
    found = ok_json("signal", waiting.id, "paid", "7", "--key", "k", "--url", url, "--json")

    assert {name: found[name] for name in ("run", "status", "created", "name", "key")} == {
        "run": waiting.id,
        "status": "queued",
        "created": True,
        "name": "paid",
        "key": "k",
    }
    assert (found["payload"], found["taken_by"]) == (7, None)


def test_the_beginning_of_an_id_is_enough(url: str, app: Windlass) -> None:
    run = app.enqueue("order")
    assert ok("signal", run.id[:13], "paid", "--url", url).startswith(f"{run.id} paid sent")


def test_what_has_ended_takes_no_signal(url: str, app: Windlass) -> None:
    done = app.enqueue("greet")
    work(app)

    told = fails(4, "signal", done.id, "paid", "--url", url)

    assert told.startswith(f"Run {done.id} is succeeded: signal is ")
    assert told.endswith(f"See `windlass show {done.id}`.")
    assert f"There is no run {NOBODY}: " in fails(3, "signal", NOBODY, "paid", "--url", url)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["paid", "{amount: 7}"], "The payload is not JSON: "),
        (["paid", "yes"], "; text needs quotes of its own, such as '\"yes\"'."),
        (["paid", "NaN"], "The payload is not JSON: NaN is not JSON"),
        (["paid", "[" * 200_000], "The payload is nested too deeply."),
        (["paid", "7", "by=card"], "NAME=VALUE goes with a JSON object only"),
        (["paid", "7", "8"], "'8' is neither NAME=VALUE nor "),
        (["paid", "@nowhere.json"], "nowhere.json cannot be read: No such file"),
        (["a/b"], "Invalid value for 'NAME': 'a/b' has a character that no name may have"),
        ([""], "Invalid value for 'NAME': it must have 1 to 200 characters"),
        (["paid", "--key", ""], "Invalid value for '--key': "),
        ([], "Missing argument 'NAME'."),
    ],
)
def test_wrong_usage(given: list[str], told: str) -> None:
    app = make_durable_app("sqlite:///windlass.db")
    run = app.enqueue("order")

    assert told in fails(2, "signal", run.id, *given)
    assert run.signals() == []
    app.close()
