// node worker.mjs PORT
// A node-resque worker on the queue "work" that keeps a ledger, until TERM.
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";

const require = createRequire(new URL("../interop/package.json", import.meta.url));
const { Worker } = require("node-resque");

const note = (event, id) => appendFileSync(process.env.CHAOS_LEDGER, `${event}\t${id}\t${Date.now() * 1000000}\n`);
const jobs = {
  Nap: {
    perform: async (id, ms) => {
      note("s", id);
      await new Promise((done) => setTimeout(done, ms));
      note("e", id);
    },
  },
};
const connection = { pkg: "ioredis", host: "127.0.0.1", port: Number(process.argv[2]), namespace: "resque" };
const worker = new Worker({ connection, queues: ["work"], timeout: 20 }, jobs);
worker.on("error", (error) => console.error(error));
process.on("SIGTERM", () => worker.end().then(() => process.exit(0)));
await worker.connect();
await worker.start();
