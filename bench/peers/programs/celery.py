"""Celery on Redis: one process without children (`--pool=solo`), prefetch 64, results ignored.

For jobs that do nothing this pool is twice as fast as prefork with two processes. It has no call
for many tasks.
"""

from typing import Any

from celery import Celery
from celery.signals import worker_ready

from bench.peers.programs import kit

app = Celery("race")


@app.task(name="noop", ignore_result=True)
def noop(number: int, template: str, locale: str, note: str) -> None:
    """Stamp the start."""
    kit.stamps().stamp(number)


class CeleryProgram(kit.Program):
    """The worker is the one of its command line."""

    def __init__(self, task: kit.Task) -> None:
        super().__init__(task)
        app.conf.update(
            broker_url=self.url,
            task_ignore_result=True,
            worker_prefetch_multiplier=64,
            # Events, gossip and remote control cost messages; the race has one worker.
            worker_send_task_events=False,
            worker_enable_remote_control=False,
            worker_redirect_stdouts=False,  # our answers go there
        )

    async def open(self) -> None:
        """Hold one connection, rather than ask the pool at each call."""
        self.producer = app.amqp.producer_pool.acquire()

    async def close(self) -> None:
        """Disconnect."""
        self.producer.release()
        app.close()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one message."""
        noop.apply_async(kwargs=payload, producer=self.producer)

    async def work(self) -> None:
        """Take over this process until SIGTERM, which finishes what was begun."""
        worker_ready.connect(lambda **_: kit.say("ready"), weak=False)
        app.worker_main([
            "worker", "--pool=solo", "--loglevel=WARNING", "--without-gossip",
            "--without-mingle", "--without-heartbeat",
        ])  # fmt: skip

    async def left(self) -> int:
        """Messages in the queue, and those handed out but not acknowledged."""
        client = self.producer.channel.client
        return int(client.llen("celery") + client.hlen("unacked"))


if __name__ == "__main__":
    kit.main(CeleryProgram)
