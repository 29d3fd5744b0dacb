// BullMQ on Redis: bulk adds, one worker process for each core, the last thousand finished jobs kept.
const { Queue, Worker } = require("bullmq");
const record = require("./record.js");

const { hostname, port } = new URL(record.SERVER);
const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };

async function submit() {
  const { count, first, at } = record.arguments();
  const queue = new Queue("bench", { connection });
  await queue.waitUntilReady();
  record.begin();
  for (const numbers of record.chunks(count, first)) {
    const opts = { removeOnComplete: { count: 1000 } };
    if (at) opts.delay = Math.max(0, Math.round(at * 1000 - Date.now()));
    await queue.addBulk(numbers.map((number) => ({ name: "noop", data: { number, payload: record.PAYLOAD }, opts })));
  }
  await queue.close();
}

function work() {
  const worker = new Worker("bench", async (job) => record.ran(job.data.number), { connection, concurrency: 200 });
  process.on("SIGTERM", async () => {
    await worker.close(true);
    process.exit(0);
  });
}

({ submit, work })[process.argv[2]]();
