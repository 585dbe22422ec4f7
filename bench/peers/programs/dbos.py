"""DBOS: an async workflow without steps, on a queue that is polled every 20 ms.

It has no call for many workflows: the quickest way is a transaction of 500 enqueues.
"""

import logging
from collections.abc import Sequence
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions

from bench.peers.programs import kit

OPTIONS: EnqueueOptions = {"queue_name": "race", "workflow_name": "noop"}


class DbosProgram(kit.Program):
    """The client enqueues, DBOS itself runs."""

    batch = 500

    def __init__(self, task: kit.Task) -> None:
        super().__init__(task)
        # SQLAlchemy would take psycopg2 for a plain URL.
        self.address = self.url.replace("postgresql://", "postgresql+psycopg://", 1)

    async def prepare(self) -> None:
        """Let DBOS create its schema, as it does when it is launched."""
        await self._launch()
        DBOS.destroy()

    async def open(self) -> None:
        """Connect a client."""
        self.client = DBOSClient(system_database_url=self.address)
        self.engine = sqlalchemy.create_engine(self.address)

    async def close(self) -> None:
        """Disconnect."""
        self.client.destroy()
        self.engine.dispose()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one workflow."""
        self.client.enqueue(OPTIONS, **payload)

    async def enqueue_many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """One transaction, one statement each."""
        with self.engine.begin() as connection:
            for each in payloads:
                self.client.enqueue_in_transaction(connection, OPTIONS, **each)

    async def work(self) -> None:
        """Run up to 100 workflows at a time; its own threads and loop run beside this one."""
        await self._launch()
        await kit.stopped()
        DBOS.destroy(workflow_completion_timeout_sec=10)

    async def left(self) -> int:
        """Workflows in any status but SUCCESS."""
        query = sqlalchemy.text("select count(*) from dbos.workflow_status where status<>'SUCCESS'")
        with self.engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    async def _launch(self) -> None:
        logging.getLogger("dbos").setLevel(logging.WARNING)
        config: DBOSConfig = {
            "name": "race",
            "system_database_url": self.address,
            "log_level": "WARNING",
            # One version for the client and the worker: a worker takes only its own.
            "application_version": "1",
        }
        DBOS(config=config)

        @DBOS.workflow(name="noop")
        async def noop(number: int, template: str, locale: str, note: str) -> None:
            kit.stamps().stamp(number)

        DBOS.launch()
        await DBOS.register_queue_async("race", worker_concurrency=100, polling_interval_sec=0.02)


if __name__ == "__main__":
    kit.main(DbosProgram)
