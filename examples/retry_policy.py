"""Retry policies alone: when is a failure tried again? Pure; nothing is opened or waited for."""

from windlass import Fatal, Retry, RetryAfter

policy = Retry.exponential(base="1s", cap="1m", jitter=0, fatal=(ValueError,))

# `random`, of [0, 1), is the dice for the jitter; the policy itself throws none.
delays = [policy.delay_for(n, ConnectionError(), random=0.5) for n in range(1, 9)]
print("connection errors:", delays)
print("wrong value:", policy.delay_for(1, ValueError(), random=0.5))
print("asked for:", policy.delay_for(1, RetryAfter("90s"), random=0.5))
print("fatal:", policy.is_fatal(Fatal("no use")), policy.is_fatal(ConnectionError()))

linear = Retry.linear("10s", cap="30s", jitter=0)
print("linear:", [linear.delay_for(n, OSError(), random=0.5) for n in range(1, 5)])
