"""The exception tree: stable codes, attributes, and errors that travel between processes."""

import pickle
import re

import pytest

from windlass import errors
from windlass.domain.report import ErrorInfo
from windlass.errors import WindlassError
from windlass.store.postgres.sqlstates import SQLSTATES

BOOM = ErrorInfo(type="ValueError", message="boom", traceback="", fingerprint="f")

SAMPLES: list[tuple[WindlassError, str]] = [
    (errors.UnknownJob("sned", ["send", "fetch"]), "There is no job 'sned': did you mean 'send'?"),
    (
        errors.UnknownJob("x"),
        "There is no job 'x': import the module that defines it, or start a worker that has it.",
    ),
    (
        errors.DuplicateJob("send", "a.send", "b.send"),
        "Two jobs are named 'send': a.send and b.send. Give one of them another name=.",
    ),
    (errors.BadArguments("send", "needs the argument to", "to"), "Job 'send' needs the argument"),
    (errors.BadPayload("input", "no", "$.a[0]"), "The input cannot be stored at $.a[0]: no."),
    (errors.BadPayload("input", "no"), "The input cannot be stored: no."),
    (
        errors.PayloadTooLarge("result", 2_000_000, 1_048_576),
        "The result is 2,000,000 bytes of JSON and the limit is 1,048,576: store it elsewhere",
    ),
    (
        errors.ArtifactTooLarge("a.csv", 1_000),
        "Artifact 'a.csv' has more than 1,000 bytes: raise artifact_limit, or keep it in parts.",
    ),
    (
        errors.ArtifactNotFound("a.csv", "r"),
        "There is no artifact 'a.csv' of run r: it was deleted, replaced or never put.",
    ),
    (errors.ArtifactNotFound("a.csv"), "There is no artifact 'a.csv': it was deleted"),
    (errors.PlaceUnavailable("/x", "no"), "Artifacts in /x cannot be used: no."),
    (
        errors.ArtifactDamaged("a.csv", "no"),
        "Artifact 'a.csv' cannot be read: no; restore it from a backup.",
    ),
    (errors.BadDuration("'x'", "no"), "'x' is not a duration: no. Give seconds, a timedelta"),
    (errors.BadOption("lease", "no", "file x"), "Bad option lease (file x): no."),
    (errors.JobFileError("jobs/a.py", 3, "no"), "jobs/a.py:3: no"),
    (errors.EgressDenied("port", "no"), "This URL is not called: no."),
    (errors.EgressFailed("a.example", 15.0), "a.example gave no usable answer within 15 s: try"),
    (errors.EgressFailed("a.example", 0.5, "no"), "no usable answer within 0.5 s (no): try"),
    (errors.AnswerTooLarge("bytes", 1000), "The answer has more than 1,000 bytes: ask for less"),
    (errors.BadSecret("no"), "This signing secret cannot be used: no."),
    (errors.CannotUnseal("no"), "A sealed secret cannot be opened: no."),
    (errors.BadWebhookHeader("webhook-id", "is missing"), "The header webhook-id is missing."),
    (errors.WebhookOutOfTime(301, 300), "signed 301 s ago and the tolerance is 300 s: check"),
    (errors.WebhookOutOfTime(-301, 300), "signed 301 s in the future and the tolerance is"),
    (errors.BadSignature(), "No signature matches: verify the bytes of the body as they came"),
    (errors.JobFileError("jobs/a.py", None, "no"), "jobs/a.py: no"),
    (
        errors.IllegalTransition("r", "running", "retry"),
        "Run r is running: retry is for failed, canceled and stale runs.",
    ),
    (
        errors.ApprovalClosed("r", "deploy", "rejected", "ann"),
        "Approval 'deploy' of run r was rejected by ann before: the first answer counts.",
    ),
    (
        errors.ApprovalClosed("r", "deploy", "expired"),
        "Approval 'deploy' of run r has expired: nobody answered in time.",
    ),
    (errors.BadToken("r", "deploy"), "The token is not that of approval 'deploy' of run r."),
    (
        errors.EventsDeleted("1:2:1", "1:9:4"),
        "The events after 1:2:1 are deleted, up to 1:9:4: begin again without a place",
    ),
    (
        errors.ApprovalNotFound("r", "deploy"),
        "Run r asks for no approval 'deploy': `windlass approvals` lists those that are asked for.",
    ),
    (
        errors.KeyConflict("j", "k", "r"),
        "Key 'k' of job 'j' belongs to run r with other input: use another key, or the same input.",
    ),
    (
        errors.KeyTaken("j", "k", "r"),
        "Key 'k' of job 'j' belongs to run r, which has not ended: wait for that run, or cancel",
    ),
    (
        errors.RunExpires("r", "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"),
        "Run r is over at 2030-01-01T00:00:00Z and cannot wait until 2030-01-02T00:00:00Z: choose",
    ),
    (
        errors.IllegalTransition("r", "succeeded", "signal"),
        "Run r is succeeded: signal is for runs that have not ended.",
    ),
    (
        errors.IllegalTransition("r", "waiting", "reschedule"),
        "and for failed and canceled ones. Send it the signal that it waits for, or cancel it",
    ),
    (errors.StepNotRecorded("r", "charge"), "Run r has recorded no step 'charge': see `windlass"),
    (
        errors.InputInUse("r"),
        "Run r has recorded steps, which were made with its input: keep the input, or run it again",
    ),
    (errors.TooManySteps("r", 1024), "Run r has 1,024 steps, the most that a run may have:"),
    (errors.TooLate("charge"), "Step 'charge' was called when its attempt was over: await it"),
    (errors.StepFailed("charge", BOOM, 3), "Step 'charge' failed 3 times: ValueError: boom"),
    (errors.StepFailed("charge", None), "Step 'charge' failed"),
    (errors.WaitTimeout("paid"), "Nothing came in the time that 'paid' waits."),
    (
        errors.Nondeterminism("r", "a", "a step", "a sleep"),
        "Run r has recorded step 'a' as a step, and its handler now asks for it as a sleep.",
    ),
    (errors.LeaseLost("r", 3), "The lease with token 3 on run r is lost"),
    (errors.RunNotFound("r"), "There is no run r"),
    (errors.RunNotFound("r"), "or its transaction has not committed."),
    (errors.RunNotFound("r", "s"), "or their transactions have not committed."),
    (errors.StoreUnavailable("gone"), "gone"),
    (errors.StoreBusy("held"), "held"),
    (errors.StoreFull("full"), "full"),
    (errors.StoreRefused("too big"), "too big"),
    (errors.SchemaMismatch(None, 2), "The store has no Windlass schema"),
    (errors.SchemaMismatch(None, 2, callers=True), "The database of this connection has no"),
    (errors.SchemaMismatch(1, 2), "run `windlass migrate`"),
    (errors.SchemaMismatch(3, 2), "upgrade Windlass"),
    (errors.SchemaMismatch(None, 1, "functions"), "The store has no Windlass functions and"),
    (errors.SchemaMismatch(1, 2, "functions"), "The store's functions have version 1 and this"),
    (errors.SchemaMismatch(2, 1, "functions"), "upgrade Windlass"),
    (errors.SchemaMismatch(1, 1, "functions", "f()"), "Windlass (f()): run `windlass migrate`."),
    (errors.SchemaMismatch(1, 1, "schema", "t"), "gone (t): `windlass doctor` names all that is"),
    (errors.ProcessDied("by SIGSEGV"), "The process that ran the handler ended by SIGSEGV."),
    (
        errors.WorkerDisrupted("it sent SIGTERM"),
        "A handler disrupted its worker: it sent SIGTERM.",
    ),
    (errors.ResultTimeout("r", 10.0), "Run r did not end within 10 s; it goes on."),
    (errors.EndNotCommitted("r"), "Run r was ended in a transaction that was not committed:"),
    (errors.RunFailed("r", "canceled"), "Run r canceled"),
    (errors.RunFailed("r", "canceled", None, None, "no use"), "Run r canceled: no use"),
    (errors.RunFailed("r", "failed", "fatal", BOOM), "Run r failed (fatal): ValueError: boom"),
]


def all_classes(cls: type[WindlassError] = WindlassError) -> list[type[WindlassError]]:
    # Modules may have words of their own for an error of the tree: those have its code.
    below = [sub for sub in cls.__subclasses__() if sub.__module__ == errors.__name__]
    return [cls, *(found for sub in below for found in all_classes(sub))]


@pytest.mark.parametrize(("error", "text"), SAMPLES)
def test_message_says_what_happened(error: WindlassError, text: str) -> None:
    assert text in str(error)


@pytest.mark.parametrize("error", [error for error, _ in SAMPLES])
def test_error_survives_pickling(error: WindlassError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_codes_are_unique_and_every_class_has_its_own() -> None:
    classes = all_classes()
    codes = [cls.code for cls in classes]
    assert len(set(codes)) == len(codes)
    assert all("code" in vars(cls) for cls in classes)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


def test_codes_are_pinned() -> None:
    assert {cls.__name__: cls.code for cls in all_classes()} == {
        "WindlassError": "error",
        "UsageError": "usage",
        "UnknownJob": "unknown_job",
        "DuplicateJob": "duplicate_job",
        "BadArguments": "bad_arguments",
        "BadPayload": "bad_payload",
        "PayloadTooLarge": "payload_too_large",
        "ArtifactTooLarge": "artifact_too_large",
        "ArtifactNotFound": "artifact_not_found",
        "ArtifactDamaged": "artifact_damaged",
        "PlaceUnavailable": "place_unavailable",
        "BadDuration": "bad_duration",
        "BadOption": "bad_option",
        "BadSecret": "bad_secret",
        "CannotUnseal": "cannot_unseal",
        "EgressError": "egress",
        "EgressDenied": "egress_denied",
        "EgressFailed": "egress_failed",
        "AnswerTooLarge": "answer_too_large",
        "WebhookRejected": "webhook_rejected",
        "BadWebhookHeader": "bad_webhook_header",
        "WebhookOutOfTime": "webhook_out_of_time",
        "BadSignature": "bad_signature",
        "JobFileError": "job_file",
        "ConflictError": "conflict",
        "IllegalTransition": "illegal_transition",
        "ApprovalClosed": "approval_closed",
        "BadToken": "bad_token",
        "ApprovalNotFound": "approval_not_found",
        "EventsDeleted": "events_deleted",
        "KeyConflict": "key_conflict",
        "KeyTaken": "key_taken",
        "RunExpires": "run_expires",
        "InputInUse": "input_in_use",
        "StepNotRecorded": "step_not_recorded",
        "ScheduleBusy": "schedule_busy",
        "LeaseLost": "lease_lost",
        "NotFound": "not_found",
        "AmbiguousRun": "ambiguous_run",
        "RunNotFound": "run_not_found",
        "ScheduleNotFound": "schedule_not_found",
        "StoreError": "store",
        "StoreUnavailable": "store_unavailable",
        "StoreBusy": "store_busy",
        "StoreFull": "store_full",
        "StoreRefused": "store_refused",
        "SchemaMismatch": "schema_mismatch",
        "ProcessDied": "process_died",
        "WorkerDisrupted": "worker_disrupted",
        "ListenerTooSlow": "listener_too_slow",
        "ResultTimeout": "result_timeout",
        "StepFailed": "step_failed",
        "ChildFailed": "child_failed",
        "ChildrenFailed": "children_failed",
        "BatchFailed": "batch_failed",
        "WaitTimeout": "wait_timeout",
        "Nondeterminism": "nondeterminism",
        "TooManySteps": "too_many_steps",
        "TooLate": "too_late",
        "EndNotCommitted": "end_not_committed",
        "RunFailed": "run_failed",
        "ResultMismatch": "result_mismatch",
    }


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"(\w+)  +([a-z_]+)", errors.__doc__ or "")
    assert dict(drawn) == {cls.__name__: cls.code for cls in all_classes()}


def test_only_what_is_unavailable_is_retryable() -> None:
    retryable = {cls for cls in all_classes() if cls.retryable}
    assert retryable == {errors.StoreUnavailable, errors.StoreBusy, errors.EgressFailed}


@pytest.mark.parametrize("error", [errors.ResultTimeout("r", 1.0), errors.WaitTimeout("paid")])
def test_timeouts_are_also_the_builtin_one(error: WindlassError) -> None:
    with pytest.raises(TimeoutError):
        raise error


@pytest.mark.parametrize(
    ("sqlstate", "detail", "text"),
    [
        ("WL001", ["r1"], "There is no run r1"),
        ("WL002", ["r1", "succeeded", "cancel"], "Run r1 is succeeded: cancel"),
        ("WL003", ["send", "k", "r1"], "belongs to run r1"),
        ("WL004", ["r1", "T1", "T2"], "Run r1 is over at T1 and cannot wait until T2"),
        ("WL005", ["send", "needs a queue"], "Job 'send' needs a queue."),
        ("WL006", ["send"], "There is no job 'send'"),
        ("WL007", ["input", 5, 4], "The input is 5 bytes"),
        ("WL010", ["input", "it has a NUL"], "The input cannot be stored: it has a NUL."),
        ("WL011", ["send", "k", "r1"], "belongs to run r1, which has not ended"),
        ("WL012", ["r1"], "Run r1 has recorded steps"),
        ("WL014", ["r1", "charge"], "Run r1 has recorded no step 'charge'"),
        ("WL020", ["1:2:1", "1:9:4"], "The events after 1:2:1 are deleted"),
        ("WL013", ["r1", 3], "The lease with token 3 on run r1 is lost"),
    ],
)
def test_sqlstate_and_detail_make_the_error(sqlstate: str, detail: list[str], text: str) -> None:
    assert text in str(SQLSTATES[sqlstate](*detail))


def test_every_sqlstate_is_covered_above() -> None:
    later = {"WL010", "WL011", "WL012", "WL013", "WL014", "WL020"}
    assert set(SQLSTATES) == {f"WL00{n}" for n in range(1, 8)} | later
