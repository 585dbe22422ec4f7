"""The exceptions that Windlass raises.

    WindlassError                   error
    ├── UsageError                  usage               the caller's mistake
    │   ├── UnknownJob              unknown_job
    │   ├── DuplicateJob            duplicate_job
    │   ├── BadArguments            bad_arguments
    │   ├── BadPayload              bad_payload
    │   ├── PayloadTooLarge         payload_too_large
    │   ├── ArtifactTooLarge        artifact_too_large
    │   ├── BadDuration             bad_duration
    │   ├── BadOption               bad_option
    │   ├── BadSecret               bad_secret
    │   ├── TooManySteps            too_many_steps
    │   ├── TooLate                 too_late
    │   └── JobFileError            job_file
    ├── ConflictError               conflict            right call, wrong moment
    │   ├── IllegalTransition       illegal_transition
    │   ├── ApprovalClosed          approval_closed
    │   ├── BadToken                bad_token
    │   ├── KeyConflict             key_conflict
    │   ├── KeyTaken                key_taken
    │   ├── RunExpires              run_expires
    │   ├── InputInUse              input_in_use
    │   ├── StepNotRecorded         step_not_recorded
    │   ├── ScheduleBusy            schedule_busy
    │   └── LeaseLost               lease_lost
    ├── NotFound                    not_found
    │   ├── AmbiguousRun            ambiguous_run
    │   ├── ArtifactNotFound        artifact_not_found
    │   ├── ApprovalNotFound        approval_not_found
    │   ├── EventsDeleted           events_deleted
    │   ├── RunNotFound             run_not_found
    │   └── ScheduleNotFound        schedule_not_found
    ├── StoreError                  store               the database's trouble
    │   ├── StoreUnavailable        store_unavailable   (retryable)
    │   │   └── StoreBusy           store_busy          somebody holds a lock
    │   ├── StoreFull               store_full
    │   ├── StoreRefused            store_refused       what it was given, not the moment
    │   ├── PlaceUnavailable        place_unavailable   the folder or bucket of artifacts
    │   ├── ArtifactDamaged         artifact_damaged
    │   └── SchemaMismatch          schema_mismatch
    ├── EgressError                 egress              calls to other hosts
    │   ├── EgressDenied            egress_denied
    │   ├── EgressFailed            egress_failed       (retryable)
    │   └── AnswerTooLarge          answer_too_large
    ├── WebhookRejected             webhook_rejected    by a receiver
    │   ├── BadWebhookHeader        bad_webhook_header
    │   ├── WebhookOutOfTime        webhook_out_of_time
    │   └── BadSignature            bad_signature
    ├── CannotUnseal                cannot_unseal
    ├── ProcessDied                 process_died        under a handler
    ├── WorkerDisrupted             worker_disrupted    by a handler
    ├── ListenerTooSlow             listener_too_slow   it goes on at error.cursor
    ├── ResultTimeout               result_timeout      (also a TimeoutError)
    ├── StepFailed                  step_failed
    │   ├── ChildFailed             child_failed
    │   ├── ChildrenFailed          children_failed
    │   └── BatchFailed             batch_failed
    ├── WaitTimeout                 wait_timeout        (also a TimeoutError)
    ├── Nondeterminism              nondeterminism
    ├── EndNotCommitted             end_not_committed
    ├── RunFailed                   run_failed
    └── ResultMismatch              result_mismatch

The word beside each class is its `code`: stable, and the same in HTTP problems, CLI output and
events. What went wrong is in attributes; the text is for people and may change.

The positional arguments of a class are its whole state (`error.args`). Therefore every error
survives pickling, and a PostgreSQL function can raise one with its SQLSTATE and a JSON array of
those arguments as DETAIL, see `store/postgres/sqlstates.py`.
"""

from windlass.errors.base import (
    WindlassError,
)
from windlass.errors.conflict import (
    AmbiguousRun,
    ApprovalClosed,
    ApprovalNotFound,
    ArtifactNotFound,
    BadToken,
    ConflictError,
    EventsDeleted,
    IllegalTransition,
    InputInUse,
    KeyConflict,
    KeyTaken,
    LeaseLost,
    NotFound,
    RunExpires,
    RunNotFound,
    ScheduleBusy,
    ScheduleNotFound,
    StepNotRecorded,
)
from windlass.errors.egress import (
    AnswerTooLarge,
    EgressDenied,
    EgressError,
    EgressFailed,
)
from windlass.errors.runs import (
    EndNotCommitted,
    ErrorLike,
    ListenerTooSlow,
    ProcessDied,
    ResultMismatch,
    ResultTimeout,
    RunFailed,
    WorkerDisrupted,
)
from windlass.errors.secrets import BadSecret, CannotUnseal
from windlass.errors.steps import (
    BatchFailed,
    ChildFailed,
    ChildrenFailed,
    Nondeterminism,
    StepFailed,
    TooLate,
    TooManySteps,
    WaitTimeout,
)
from windlass.errors.store import (
    ArtifactDamaged,
    PlaceUnavailable,
    SchemaMismatch,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from windlass.errors.usage import (
    ArtifactTooLarge,
    BadArguments,
    BadDuration,
    BadOption,
    BadPayload,
    DuplicateJob,
    JobFileError,
    PayloadTooLarge,
    UnknownJob,
    UsageError,
)
from windlass.errors.webhooks import (
    BadSignature,
    BadWebhookHeader,
    WebhookOutOfTime,
    WebhookRejected,
)

__all__ = [
    "AmbiguousRun",
    "AnswerTooLarge",
    "ApprovalClosed",
    "ApprovalNotFound",
    "ArtifactDamaged",
    "ArtifactNotFound",
    "ArtifactTooLarge",
    "BadArguments",
    "BadDuration",
    "BadOption",
    "BadPayload",
    "BadSecret",
    "BadSignature",
    "BadToken",
    "BadWebhookHeader",
    "BatchFailed",
    "CannotUnseal",
    "ChildFailed",
    "ChildrenFailed",
    "ConflictError",
    "DuplicateJob",
    "EgressDenied",
    "EgressError",
    "EgressFailed",
    "EndNotCommitted",
    "ErrorLike",
    "EventsDeleted",
    "IllegalTransition",
    "InputInUse",
    "JobFileError",
    "KeyConflict",
    "KeyTaken",
    "LeaseLost",
    "ListenerTooSlow",
    "Nondeterminism",
    "NotFound",
    "PayloadTooLarge",
    "PlaceUnavailable",
    "ProcessDied",
    "ResultMismatch",
    "ResultTimeout",
    "RunExpires",
    "RunFailed",
    "RunNotFound",
    "ScheduleBusy",
    "ScheduleNotFound",
    "SchemaMismatch",
    "StepFailed",
    "StepNotRecorded",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreRefused",
    "StoreUnavailable",
    "TooLate",
    "TooManySteps",
    "UnknownJob",
    "UsageError",
    "WaitTimeout",
    "WebhookOutOfTime",
    "WebhookRejected",
    "WindlassError",
    "WorkerDisrupted",
]

for _name in __all__:
    # Where users import it from: this is what logs, pickles and stored errors name.
    globals()[_name].__module__ = __name__
