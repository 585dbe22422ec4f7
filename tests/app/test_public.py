"""The names that users import: adding or losing one is a decision, not an accident."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import windlass
from windlass import Windlass, WindlassError

NAMES = [
    "AmbiguousRun", "Approval", "ApprovalClosed", "ApprovalNotFound", "ApprovalRequest",
    "BadToken", "OpenApproval", "BatchCounts", "BatchFailed", "BatchJob", "FailedUnit",
    "Artifact", "ArtifactDamaged", "ArtifactNotFound", "ArtifactTooLarge", "PlaceUnavailable",
    "AttemptOutcome", "BadArguments", "BadDuration", "BadOption", "BadPayload",
    "BulkResult", "Cancel", "Child", "ChildFailed", "ChildrenFailed", "SyncChild",
    "ConflictError", "Context", "ContinueAs", "Count", "Counts", "DuplicateJob", "EventType",
    "Event", "ListenerTooSlow",
    "Fail", "FailedRun", "Failure", "Fatal", "Generation",
    "EndNotCommitted", "StepNotRecorded", "StopRequest",
    "InputInUse", "Nondeterminism", "Signal", "Step", "StepFailed", "StepKind", "StepState",
    "TooLate", "TooManySteps", "WaitTimeout",
    "IllegalTransition", "Job", "JobFileError", "KeyConflict", "KeyTaken", "LeaseLost", "NotFound",
    "PauseKind", "WorkPause",
    "PayloadTooLarge", "PhaseState", "PhaseStatus", "ProcessDied", "QueueState", "Units", "phase",
    "AuditEntry", "LogLine", "Request",
    "ResultMismatch", "ResultTimeout", "Retention", "Retry", "RetryAfter", "Router",
    "Run",
    "RunExpires", "RunFailed",
    "RunNotFound", "Schedule", "ScheduleBusy", "ScheduleNotFound",
    "SchemaMismatch", "Selection", "Snooze", "Status", "StoreBusy", "StoreError", "StoreFull",
    "StoreRefused", "StoreUnavailable", "SyncContext", "UnknownJob", "UsageError", "Windlass",
    "WindlassError", "Worker", "WorkerDisrupted", "WorkerOptions", "WorkerState",
]  # fmt: skip

VERBS = [
    "aattempts", "autodiscover", "achange", "arun_again", "change", "run_again",
    "aapprovals", "aapprove", "areject", "approvals", "approve", "reject",
    "astop_requests", "stop_requests",
    "afull_id", "agenerations", "generations", "as_completed", "await_all", "full_id", "select",
    "achildren", "children", "asignal", "asignals", "asteps", "signal", "signals", "step", "steps",
    "aphases", "phases", "pipeline",
    "aafter", "achain", "afollowers", "after", "chain", "followers",
    "arestart", "restart",
    "apause_job", "apause_queue", "apauses", "aresume_job", "aresume_queue",
    "pause_job", "pause_queue", "pauses", "resume_job", "resume_queue",
    "apause", "aresume", "aterminate", "pause", "resume", "terminate",
    "aaudit", "acting_as", "audit", "batch", "abatch_counts", "batch_counts", "afailed_units",
    "failed_units", "aretry_failed", "retry_failed",
    "artifacts", "alogs", "logs",
    "prune", "aprune", "growth", "agrowth", "deletes_at", "adeletes_at",
    "wait_all", "acancel", "aclose", "acounts", "adiscard",
    "aenqueue", "aenqueue_many", "aevents", "arun_events", "on", "run_events", "aget", "alist",
    "aqueues",
    "areprioritize", "areschedule", "aresult", "aretry", "await_end", "aworkers",
    "define_handler", "failure_handler", "on_failure",
    "attempts", "cancel", "close", "counts", "discard", "enqueue", "enqueue_many", "events", "get",
    "ground", "include", "job",
    "jobs", "list", "made_by", "middleware", "migrate", "names", "queues",
    "reprioritize", "reschedule", "resource", "result", "retry", "running",
    "running_in_thread", "schedule", "schedules", "scope", "settings", "sources", "specify",
    "store", "transaction", "transport", "wait", "worker", "workers",
]  # fmt: skip


def test_public_names_are_these() -> None:
    assert sorted(windlass.__all__) == sorted(NAMES)
    assert all(hasattr(windlass, name) for name in windlass.__all__)


def test_verbs_of_the_application_are_these() -> None:
    app = Windlass("sqlite:///never.db")
    assert sorted(name for name in dir(app) if not name.startswith("_")) == sorted(VERBS)


def test_every_verb_of_a_run_has_its_twin() -> None:
    names = set(VERBS)
    for verb in ("enqueue", "enqueue_many", "get", "list", "result", "cancel", "retry", "close"):
        assert {verb, f"a{verb}"} <= names
    assert {"reschedule", "areschedule", "discard", "adiscard", "wait", "await_end"} <= names


def test_every_public_error_descends_from_one() -> None:
    errors = [found for name in windlass.__all__ if _is_error(found := getattr(windlass, name))]
    told_by_handlers = {windlass.Fatal, windlass.RetryAfter}  # raised by users, not by us
    assert all(
        issubclass(error, WindlassError) for error in errors if error not in told_by_handlers
    )


def test_version_is_the_packages() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert f'version = "{version("windlass")}"' in project.read_text()


def test_making_an_application_opens_nothing(tmp_path: Path) -> None:
    app = Windlass(f"sqlite:///{tmp_path}/windlass.db")

    @app.job
    async def greet(name: str) -> str:
        return name

    greet.using(delay="1s").request("Ada")
    assert list(tmp_path.iterdir()) == []


def _is_error(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, Exception)
