// graphile-worker with the batching that its documentation and its own benchmark use: a local queue
// of 500 jobs that is refilled after 10 ms, ends recorded in batches without a delay, 50 jobs at a time.
//
// Speaks the protocol of kit.py. Run it in the folder that has its node_modules.

import { readFileSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(join(process.cwd(), "here.js"));
const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Pool } = require("pg");

const WARM_UP = 20;
const BATCH = 1000;
const task = JSON.parse(process.argv[2]);
const quiet = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

const say = (race, answer = {}) => console.log(JSON.stringify({ race, ...answer }));
const payload = (number) => ({ number, template: "welcome", locale: "en", note: "x".repeat(40) });
const spec = (each) => ({ identifier: "noop", payload: each });
const payloads = () => Array.from({ length: task.count }, (_, number) => payload(number));

// Node cannot map a file. There is one process, so the stamps are kept in memory and written down
// when the last run has started, every second, and at the end.
class Stamps {
  constructor(path) {
    this.path = path;
    this.size = statSync(path).size / 9;
    this.counts = new Uint8Array(this.size);
    this.times = new BigInt64Array(this.size);
    this.missing = this.size;
    setInterval(() => this.write(), 1000).unref();
  }

  stamp(number) {
    this.times[number] = process.hrtime.bigint();
    if (this.counts[number]++ === 0 && --this.missing === 0) this.write();
  }

  write() {
    writeFileSync(this.path, Buffer.concat([this.counts, Buffer.from(this.times.buffer)]), {
      flag: "r+",
    });
  }
}

async function timed(first, rest) {
  await first();
  const began = process.hrtime.bigint();
  await rest();
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  say("enqueued", { rate: (task.count - WARM_UP) / seconds });
}

const actions = {
  async prepare(utils) {
    await utils.migrate();
    say("prepared");
  },

  async bulk(utils) {
    const all = payloads().map(spec);
    await timed(
      () => utils.addJobs(all.slice(0, WARM_UP)),
      async () => {
        for (let start = WARM_UP; start < all.length; start += BATCH) {
          await utils.addJobs(all.slice(start, start + BATCH));
        }
      },
    );
  },

  async single(utils) {
    const add = async (some) => {
      for (const each of some) await utils.addJob("noop", each);
    };
    const all = payloads();
    await timed(
      () => add(all.slice(0, WARM_UP)),
      () => add(all.slice(WARM_UP)),
    );
  },

  async latency(utils) {
    const at = [];
    for (const each of payloads()) {
      await sleep(45 + ((each.number * 7) % 11));
      at.push(Number(process.hrtime.bigint()));
      await utils.addJob("noop", each);
    }
    say("sent", { at });
  },

  // A finished job is deleted.
  async left(utils, pool) {
    const { rows } = await pool.query("select count(*) from graphile_worker._private_jobs");
    say("left", { count: Number(rows[0].count) });
  },
};

async function work() {
  const stamps = new Stamps(task.stamps);
  const runner = await run({
    noHandleSignals: true,
    taskList: { noop: ({ number }) => stamps.stamp(number) },
    preset: {
      worker: {
        connectionString: task.url,
        concurrentJobs: 50,
        maxPoolSize: 51,
        localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger: quiet,
      },
    },
  });
  process.once("SIGTERM", async () => {
    await runner.stop();
    stamps.write();
  });
  say("ready");
  await runner.promise;
}

async function enqueue() {
  const pool = new Pool({ connectionString: task.url });
  const utils = await makeWorkerUtils({ pgPool: pool, logger: quiet });
  await actions[task.do](utils, pool);
  await utils.release();
  await pool.end();
}

await (task.do === "work" ? work() : enqueue());
