"""Durable work inside a handler: steps, sleeps, signals. `domain/step.py` has the rules.

`flows.py` says what each does, once, as generators; they yield store calls and the acts of
`acts.py`. Two drivers do these: `awaited.py` for async handlers and `blocking.py` for those in
threads. A `Ledger` is what the attempt knows of the run's steps.

Suspending. A handler that waits for long gives up its seat: the attempt ends as ``sleeping`` or
``waiting``, and the run is claimed again when its time, or its signal, has come. The handler is
then called from its beginning, and what is recorded is not done again.

Whether an attempt is suspended is a fact of its driver, not an exception: code between a wait and
the worker may swallow anything that is raised, and still nothing it does counts.

- In an async handler a wait is a future. When every task that the handler waits for is itself
  blocked in such a future (`blocked.py`), and has been for a moment, the driver notes that it is
  suspended and cancels the handler. Until then it keeps its seat, so that steps and other awaits
  beside the wait go on, and so do `asyncio.timeout` and whatever else cannot be seen through.
- A handler in a thread is unwound by `Suspended`. If it swallows that, its next durable call raises
  it again.

Clean-up code (`finally`, `async with`) runs each time a handler is suspended: what must happen
once belongs into a step.
"""
