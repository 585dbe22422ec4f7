"""A project's tasks, and the tests of them that Django's own test runner runs."""

IMPORT = """
import django

if django.VERSION >= (6, 0):
    from django import tasks as library
    from django.tasks import base, exceptions, signals, task, task_backends
else:
    import django_tasks as library
    from django_tasks import base, exceptions, signals, task, task_backends

InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
"""
SETTINGS = """
import django

if django.VERSION < (6, 0):
    INSTALLED_APPS += ["django_tasks"]
TASKS = {
    "default": {
        "BACKEND": "windlass.contrib.django.task_backend.WindlassBackend",
        "QUEUES": ["default", "mail"],
    },
    "other": {
        "BACKEND": "windlass.contrib.django.task_backend.WindlassBackend",
        "QUEUES": [],
        "OPTIONS": {"max_attempts": 2},
    },
}
"""
TASKS = """
from orders.library import task
from django.contrib.auth.models import User
from windlass import Cancel, Retry, Snooze

seen = []


@task
def add(a, b=0):
    return a + b


@task()
async def aadd(a, b=0):
    return a + b


@task(takes_context=True)
def tell(context, more):
    seen.append(more)
    return [context.task_result.id, context.attempt, len(context.task_result.errors), more]


@task(takes_context=True)
async def atell(context):
    return [context.task_result.id, context.attempt]


@task
def fail():
    raise ValueError("it failed")


@task
async def afail():
    raise ValueError("it failed")


@task
def leave():
    raise SystemExit("it left")


@task(backend="other")
def fail_twice():
    raise ValueError("it failed")


@task(retry=Retry.fixed("1m", jitter=0.0), max_attempts=3, takes_context=True)
def flaky(context):
    if context.attempt < 3:
        raise LookupError(context.attempt)
    return context.attempt


@task(retry=Retry.fixed("1m", jitter=0.0, fatal=ValueError))
def hopeless():
    raise ValueError("never again")


@task
def give_function():
    return lambda: None


@task(max_attempts=3)
def give_function_often():
    return lambda: None


@task
def give_later():
    seen.append("later")
    return Snooze("1h") if len(seen) < 2 else "at last"


@task
def give_up():
    return Cancel("not needed")


@task
def names():
    return list(User.objects.values_list("username", flat=True))


@task
async def anames():
    return [user.username async for user in User.objects.all()]


class Desk:
    @task
    def ring():
        return "rung"


def plain():
    return None


hidden = task(plain)
"""
TESTS = """
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import transaction
from django.test import TestCase, override_settings
from django.utils import timezone
from orders import tasks
from orders.library import InvalidTask, base, exceptions, library, signals, task, task_backends
from windlass import testing
from windlass.errors import KeyConflict
from windlass.contrib.django.task_backend import WindlassBackend, WindlassTask
from windlass.contrib.django.testing import windlass_in_test

Status = library.TaskResultStatus
BACKEND = "windlass.contrib.django.task_backend.WindlassBackend"


class Case(TestCase):
    def setUp(self):
        self.app = self.enterContext(windlass_in_test())
        tasks.seen.clear()

    def drain(self, **options):
        return testing.drain(self.app, **options)

    def heard(self, *kinds):
        heard = []
        for name in kinds:
            signal = getattr(signals, name)

            def hear(sender, task_result, name=name, **rest):
                heard.append((name, sender, task_result.id, task_result.status))

            signal.connect(hear, weak=False, dispatch_uid=name)
            self.addCleanup(signal.disconnect, dispatch_uid=name)
        return heard


class ResultTests(Case):
    def test_result_of_a_waiting_task(self):
        result = tasks.add.enqueue(1, b=2)
        self.assertEqual((result.status, result.is_finished), (Status.READY, False))
        self.assertEqual((result.args, result.kwargs), ([1], {"b": 2}))
        self.assertEqual((result.attempts, result.errors, result.backend), (0, [], "default"))
        self.assertEqual(result.enqueued_at, self.app.get(result.id).created_at)
        times = (result.started_at, result.last_attempted_at, result.finished_at)
        self.assertEqual(times, (None, None, None))
        self.assertEqual(result.task, tasks.add)
        with self.assertRaisesMessage(ValueError, "not finished"):
            result.return_value
        self.assertEqual(tasks.add.get_backend().get_result(result.id), result)
        self.assertEqual(tasks.add.get_result(result.id), result)

    def test_result_of_a_task_that_succeeded(self):
        result = tasks.add.enqueue(1, b=2)
        self.drain()
        self.assertEqual(result.status, Status.READY)
        result.refresh()
        self.assertEqual((result.status, result.return_value), (Status.SUCCESSFUL, 3))
        run = self.app.get(result.id)
        self.assertEqual((result.attempts, result.worker_ids), (1, [run.worker]))
        self.assertEqual(result.started_at, run.started_at)
        self.assertEqual(result.last_attempted_at, run.started_at)
        self.assertEqual(result.finished_at, run.finished_at)

    async def test_async_code_and_async_tasks(self):
        results = [await each.aenqueue(4, b=5) for each in (tasks.add, tasks.aadd)]
        for result in results:
            self.assertEqual(result.status, Status.READY)
        await testing.adrain(self.app)
        for result in results:
            await result.arefresh()
            self.assertEqual((result.status, result.return_value), (Status.SUCCESSFUL, 9))
            again = await result.task.aget_result(result.id)
            self.assertEqual(again, result)

    def test_tasks_see_the_projects_database(self):
        User.objects.create(username="ada")
        results = [tasks.names.enqueue(), tasks.anames.enqueue()]
        self.drain()
        for result in results:
            result.refresh()
            self.assertEqual(result.return_value, ["ada"])

    def test_errors(self):
        for each, kind, text in (
            (tasks.fail, ValueError, "it failed"),
            (tasks.afail, ValueError, "it failed"),
            (tasks.leave, SystemExit, "it left"),
        ):
            with self.subTest(each.name):
                result = each.enqueue()
                self.drain()
                result.refresh()
                self.assertEqual((result.status, result.attempts), (Status.FAILED, 1))
                (error,) = result.errors
                self.assertIs(error.exception_class, kind)
                self.assertTrue(error.traceback.startswith("Traceback"), error.traceback)
                self.assertTrue(error.traceback.endswith(f"{kind.__name__}: {text}\\n"))
                self.assertIsNotNone(result.finished_at)
                with self.assertRaisesMessage(ValueError, "Task failed"):
                    result.return_value

    def test_result_that_json_cannot_hold(self):
        result = tasks.give_function.enqueue()
        self.drain()
        result.refresh()
        self.assertEqual(result.status, Status.FAILED)
        self.assertIs(result.errors[0].exception_class, TypeError)
        # It is no use to do the work again.
        result = tasks.give_function_often.enqueue()
        self.drain()
        result.refresh()
        self.assertEqual((result.status, result.attempts), (Status.FAILED, 1))
        self.assertTrue(issubclass(result.errors[0].exception_class, TypeError))
        self.assertIn("Unsupported type", result.errors[0].traceback)

    def test_canceled_and_expired_tasks_have_failed(self):
        canceled = tasks.add.enqueue(1)
        self.app.cancel(canceled.id, reason="a mistake")
        expired = tasks.add.using(expires="1m").enqueue(1)
        testing.clock_of(self.app).advance("2m")
        self.drain()
        for result, text in ((canceled, "a mistake"), (expired, "expired")):
            result.refresh()
            self.assertEqual((result.status, result.attempts), (Status.FAILED, 0))
            self.assertEqual(result.errors[0].exception_class.__name__, "RunFailed")
            self.assertIn(text, result.errors[0].traceback)

    def test_missing_results(self):
        backend = task_backends["default"]
        job = self.app.job(name="no.task.at.all")(lambda: None)
        of_a_job = job.enqueue().id
        other = tasks.add.using(backend="other").enqueue(1)
        self.assertEqual((other.backend, other.task.backend), ("other", "other"))
        self.assertEqual(task_backends["other"].get_result(other.id), other)
        for id in ("123", "0197c0de-0000-7000-8000-000000000000", of_a_job, other.id):
            with self.subTest(id), self.assertRaises(exceptions.TaskResultDoesNotExist):
                backend.get_result(id)
        with self.assertRaises(exceptions.TaskResultMismatch):
            tasks.fail.get_result(tasks.add.enqueue(1).id)

    def test_operator_moved_the_run(self):
        result = tasks.add.enqueue(1)
        self.app.reprioritize(result.id, priority=1000, queue="unknown_to_django")
        found = tasks.add.get_result(result.id)
        self.assertEqual((found.task.priority, found.task.queue_name), (100, "default"))

    def test_many_attempts(self):
        result = tasks.give_later.using(max_attempts=200).enqueue()
        for _ in range(103):
            tasks.seen.clear()
            self.drain()
            testing.clock_of(self.app).advance("1h")
        result.refresh()
        self.assertEqual((result.status, result.attempts), (Status.READY, 103))
        self.assertEqual(len(self.app.get(result.id).attempts), 100)
        self.assertLess(result.started_at, result.last_attempted_at - timedelta(hours=101))

    @override_settings(USE_TZ=False)
    def test_times_without_zones(self):
        result = tasks.add.using(run_after=datetime(2999, 1, 1, 12)).enqueue(1)
        result.refresh()
        self.assertIsNone(result.enqueued_at.tzinfo)
        self.assertEqual(tasks.add.get_result(result.id).task.run_after, datetime(2999, 1, 1, 12))


class OptionTests(Case):
    def test_priority(self):
        for priority in (-100, 0, 100):
            tasks.tell.using(priority=priority).enqueue(priority)
        self.drain()
        self.assertEqual(tasks.seen, [100, 0, -100])

    def test_run_after(self):
        later = testing.clock_of(self.app).now() + timedelta(hours=2)
        result = tasks.add.using(run_after=later).enqueue(1)
        self.assertEqual(tasks.add.get_result(result.id).task.run_after, later)
        self.assertFalse(self.drain().runs)
        testing.clock_of(self.app).advance("2h")
        self.assertTrue(self.drain().runs)

    def test_queue(self):
        result = tasks.add.using(queue_name="mail").enqueue(1)
        self.assertEqual(self.app.get(result.id).queue, "mail")
        self.assertEqual(tasks.add.get_result(result.id).task.queue_name, "mail")

    def test_key(self):
        heard = self.heard("task_enqueued")
        keyed = tasks.add.using(key="one", tags=["sums"], metadata={"who": "ada"})
        first, second = keyed.enqueue(1), keyed.using(priority=7).enqueue(1)
        self.assertEqual((second.id, second.task.priority), (first.id, 0))
        with self.assertRaisesMessage(KeyConflict, "one"), transaction.atomic():
            keyed.enqueue(2)
        self.assertEqual(len(heard), 1)
        run = self.app.get(first.id)
        self.assertEqual((run.key, run.tags, run.metadata), ("one", ("sums",), {"who": "ada"}))
        self.drain()
        self.assertEqual(keyed.enqueue(1).return_value, 1)
        live = tasks.add.using(key="two", unique="live")
        first = live.enqueue(1)
        self.drain()
        self.assertNotEqual(live.enqueue(1).id, first.id)

    def test_nothing_is_retried_unless_asked_for(self):
        result = tasks.fail.enqueue()
        self.drain(with_scheduled=True)
        result.refresh()
        self.assertEqual((result.status, result.attempts), (Status.FAILED, 1))

    def test_retry_of_a_task(self):
        result = tasks.flaky.enqueue()
        self.drain()
        result.refresh()
        self.assertEqual((result.status, result.attempts), (Status.READY, 1))
        self.assertIs(result.errors[0].exception_class, LookupError)
        self.assertEqual(self.app.get(result.id).due_at - result.started_at, timedelta(minutes=1))
        self.drain(with_scheduled=True)
        result.refresh()
        self.assertEqual((result.return_value, result.attempts, len(result.errors)), (3, 3, 2))
        self.assertEqual(result.last_attempted_at - result.started_at, timedelta(minutes=2))

    def test_policy_without_a_number_has_the_number_of_the_application(self):
        self.assertEqual(self.app.jobs["orders.tasks.hopeless"].spec.max_attempts, 5)
        result = tasks.hopeless.enqueue()
        self.drain(with_scheduled=True)
        result.refresh()
        self.assertEqual(result.attempts, 1)  # fatal, by the task's own policy

    def test_retry_of_a_run_and_of_a_backend(self):
        results = [tasks.fail.using(max_attempts=4).enqueue(), tasks.fail_twice.enqueue()]
        self.drain(with_scheduled=True)
        for result in results:
            result.refresh()
        self.assertEqual([result.attempts for result in results], [4, 2])

    def test_context(self):
        result, other = tasks.tell.enqueue("x"), tasks.atell.enqueue()
        self.drain()
        result.refresh()
        other.refresh()
        self.assertEqual(result.return_value, [result.id, 1, 0, "x"])
        self.assertEqual(other.return_value, [other.id, 1])

    def test_windlass_answers_of_a_function(self):
        result, canceled = tasks.give_later.enqueue(), tasks.give_up.enqueue()
        self.drain()
        result.refresh()
        canceled.refresh()
        self.assertEqual((result.status, canceled.status), (Status.READY, Status.FAILED))
        self.drain(with_scheduled=True)
        result.refresh()
        self.assertEqual((result.return_value, result.attempts), ("at last", 2))

    def test_task_in_a_class(self):
        result = tasks.Desk.ring.enqueue()
        self.drain()
        self.assertEqual(tasks.Desk.ring.get_result(result.id).return_value, "rung")

    def test_task_by_its_name(self):
        run = self.app.enqueue("orders.tasks.add", {"args": [1], "kwargs": {"b": 2}})
        bare = self.app.enqueue("orders.tasks.fail")
        self.drain()
        self.assertEqual(tasks.add.get_result(run.id).return_value, 3)
        self.assertEqual(tasks.fail.get_result(bare.id).status, Status.FAILED)


class SignalTests(Case):
    def test_signals(self):
        for each in (tasks.add, tasks.aadd):
            heard = self.heard("task_enqueued", "task_started", "task_finished")
            result = each.enqueue(1)
            self.drain()
            expected = [
                ("task_enqueued", WindlassBackend, result.id, Status.READY),
                ("task_started", WindlassBackend, result.id, Status.RUNNING),
                ("task_finished", WindlassBackend, result.id, Status.SUCCESSFUL),
            ]
            self.assertEqual(heard, expected)
            self.doCleanups()
            self.setUp()

    def test_a_task_that_is_repeated_finishes_once(self):
        heard = self.heard("task_finished")
        tasks.fail.using(max_attempts=3).enqueue()
        tasks.give_later.enqueue()
        self.drain(with_scheduled=True)
        self.assertEqual([status for _, _, _, status in heard], [Status.FAILED, Status.SUCCESSFUL])

    def test_receiver_that_fails_does_no_harm(self):
        def fail(**rest):
            raise ZeroDivisionError

        for name in ("task_enqueued", "task_started", "task_finished"):
            getattr(signals, name).connect(fail)
            self.addCleanup(getattr(signals, name).disconnect, fail)
        with self.assertLogs("django.dispatch", "ERROR"):
            result = tasks.add.enqueue(1)
            self.drain()
        result.refresh()
        self.assertEqual((result.status, result.attempts), (Status.SUCCESSFUL, 1))


class RefusalTests(Case):
    def test_tasks_that_cannot_be(self):
        for options, text in (
            ({"queue_name": "elsewhere"}, "not valid"),
            ({"backend": "other", "queue_name": "a b"}, "cannot use it"),
            ({"priority": 101}, "priority"),
            ({"run_after": datetime(2999, 1, 1)}, "aware"),
            ({"key": ""}, "key"),
            ({"max_attempts": 0}, "max_attempts"),
            ({"timeout": "soon"}, "soon"),
            ({"unique": "live"}, "key"),
        ):
            with self.subTest(options), self.assertRaisesMessage(InvalidTask, text):
                tasks.add.using(**options)
        with self.assertRaisesMessage(TypeError, "takes no retry"):
            tasks.add.using(retry=None)
        with self.assertRaisesMessage(InvalidTask, "Retry"):
            task(retry=3)(tasks.add.func)
        with self.assertRaisesMessage(InvalidTask, "module level"):
            task(lambda: None)

    def test_generator(self):
        def function():
            yield

        function.__qualname__ = "function"
        with self.assertRaisesMessage(InvalidTask, "generator"):
            task(function)

    def test_task_that_no_worker_could_import(self):
        with self.assertRaisesMessage(InvalidTask, "orders.tasks.plain"):
            tasks.hidden.enqueue()
        self.assertEqual(self.app.list(), [])

    def test_arguments_that_json_cannot_hold(self):
        with self.assertRaisesMessage(TypeError, "datetime"):
            tasks.add.enqueue(timezone.now())
        self.assertEqual(self.app.list(), [])

    def test_checks(self):
        call_command("check")
        for params, code in (
            ({"QUEUES": ["a b"]}, "windlass.E002"),
            ({"OPTIONS": {"attempts": 3}}, "windlass.E003"),
            ({"OPTIONS": {"max_attempts": "3"}}, "windlass.E004"),
        ):
            there = {"default": {"BACKEND": BACKEND, **params}}
            with self.subTest(code), override_settings(TASKS=there):
                with self.assertRaisesMessage(SystemCheckError, code):
                    call_command("check")


class KindTests(Case):
    def test_what_the_backend_is(self):
        backend = task_backends["default"]
        self.assertIsInstance(backend, WindlassBackend)
        self.assertIsInstance(tasks.add, WindlassTask)
        for name in ("defer", "async_task", "get_result", "priority"):
            self.assertTrue(getattr(backend, f"supports_{name}"), name)

    def test_tasks_are_jobs_by_their_path(self):
        self.assertIn("orders.tasks.aadd", self.app.jobs)
        self.assertEqual(self.app.jobs["orders.tasks.aadd"].spec.executor, "async")
        self.assertEqual(self.app.jobs["orders.tasks.add"].spec.executor, "thread")
"""
IN_TRANSACTIONS = """
from django.db import transaction
from django.test import TransactionTestCase
from asgiref.sync import sync_to_async
from orders import tasks
from orders.library import exceptions
from windlass.contrib.django.testing import windlass_in_test

JOINED = {joined}


class TransactionTests(TransactionTestCase):
    def setUp(self):
        self.app = self.enterContext(windlass_in_test())

    def found(self, result):
        try:
            tasks.add.get_result(result.id)
        except exceptions.TaskResultDoesNotExist:
            return False
        return True

    def test_commit(self):
        with transaction.atomic():
            result = tasks.add.enqueue(1)
            self.assertTrue(self.found(result))
            self.assertEqual(len(self.app.list()), 0 if JOINED else 1)
        self.assertTrue(self.found(result))
        self.assertEqual(len(self.app.list()), 1)

    def test_rollback(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            result = tasks.add.enqueue(1)
            raise ZeroDivisionError
        self.assertEqual(self.found(result), not JOINED)

    def test_rollback_without_autocommit(self):
        transaction.set_autocommit(False)
        try:
            result = tasks.add.enqueue(1)
            transaction.rollback()
        finally:
            transaction.set_autocommit(True)
        self.assertEqual(self.found(result), not JOINED)

    def test_no_transaction(self):
        self.assertTrue(self.found(tasks.add.enqueue(1)))
        self.assertEqual(len(self.app.list()), 1)

    async def test_async_code(self):
        self.assertTrue(await sync_to_async(self.found)(await tasks.add.aenqueue(1)))
"""
