// What the programs of Node peers share; the counterpart of record.py.
const fs = require("fs");

const file = process.env.BENCH_RECORD ? fs.openSync(process.env.BENCH_RECORD, "a") : -1;
const note = Buffer.alloc(16);

exports.SERVER = process.env.BENCH_SERVER;
exports.PAYLOAD = "x".repeat(200);

exports.ran = (number) => {
  note.writeBigInt64LE(BigInt(number), 0);
  note.writeDoubleLE((performance.timeOrigin + performance.now()) / 1000, 8);
  fs.writeSync(file, note);
};

exports.arguments = () => {
  const [count, first, at] = process.argv.slice(3).map(Number);
  return { count, first, at };
};

exports.begin = () => {
  const { userCPUTime, systemCPUTime } = process.resourceUsage();
  console.log(Date.now() / 1000, (userCPUTime + systemCPUTime) / 1e6);
};

exports.chunks = function* (count, first, size = 1000) {
  for (let start = 0; start < count; start += size) {
    yield Array.from({ length: Math.min(size, count - start) }, (_, n) => first + start + n);
  }
};
