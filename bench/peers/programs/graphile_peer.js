// graphile-worker on Postgres with its local queue and batched completion, the settings of its performance page.
// Finished jobs are deleted: it keeps no history.
const { run, makeWorkerUtils, Logger } = require("graphile-worker");
const record = require("./record.js");

const preset = {
  worker: {
    connectionString: record.SERVER,
    concurrentJobs: 24,
    pollInterval: 100,
    maxPoolSize: 10,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};
const logger = new Logger(() => () => {});

async function prepare() {
  const utils = await makeWorkerUtils({ connectionString: record.SERVER, logger });
  await utils.migrate();
  await utils.release();
}

async function submit() {
  const { count, first, at } = record.arguments();
  const utils = await makeWorkerUtils({ connectionString: record.SERVER, logger });
  const runAt = at ? new Date(at * 1000) : undefined;
  record.begin();
  for (const numbers of record.chunks(count, first)) {
    await utils.addJobs(
      numbers.map((number) => ({ identifier: "noop", payload: { number, payload: record.PAYLOAD }, runAt })),
    );
  }
  await utils.release();
}

async function work() {
  const noop = async (payload) => record.ran(payload.number);
  const runner = await run({ preset, logger, taskList: { noop }, noHandleSignals: true });
  process.on("SIGTERM", async () => {
    await runner.stop();
    process.exit(0);
  });
}

({ prepare, submit, work })[process.argv[2]]();
