// node producer.mjs PORT JOBS-A-SECOND LONGEST-MS TOTAL SEED (TOTAL 0: until TERM)
// Pushes with node-resque and notes each push when it knows what became of it. One
// whose answer was lost is not sent again.
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";

const require = createRequire(new URL("../interop/package.json", import.meta.url));
const { Queue } = require("node-resque");
const Redis = require("ioredis");

const [port, rate, longest, total, seed] = process.argv.slice(2).map(Number);
const redis = new Redis(port, "127.0.0.1", {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  retryStrategy: () => 50,
});
redis.on("error", () => {});
const queue = new Queue({ connection: { redis, namespace: "resque" } });
queue.on("error", () => {});
let stopping = false;
process.on("SIGTERM", () => (stopping = true));
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
let state = seed;
const below = (n) => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) % n;

await queue.connect();
for (let n = 0; !stopping && (total === 0 || n < total); n++) {
  const id = `node-${n}`;
  let verdict = "a";
  try {
    await queue.enqueue("work", "Nap", [id, below(longest + 1)]);
  } catch (error) {
    verdict = error.name === "ReplyError" ? "r" : "u";
    await sleep(20);
  }
  appendFileSync(process.env.CHAOS_LEDGER, `${verdict}\t${id}\t${Date.now() * 1000000}\n`);
  await sleep(1000 / rate);
}
process.exit(0);
