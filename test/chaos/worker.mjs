// node worker.mjs PORT [QUEUE...]
// A node-resque worker on the queue "work", or on others, that keeps a ledger, until TERM. Of a class that is not Nap it does nothing but that.
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";

const require = createRequire(new URL("../interop/package.json", import.meta.url));
const { Worker } = require("node-resque");

const note = (event, id) => appendFileSync(process.env.CHAOS_LEDGER, `${event}\t${id}\t${Date.now() * 1000000}\t0,0\n`);
// Jobs that a group became have the ids of all of them somewhere in their arguments.
const ids = (args) => (typeof args[0] === "string" ? [args[0]] : args.flat(Infinity).filter((value) => typeof value === "string"));
const once = {
  perform: async (...args) => {
    for (const event of ["s", "e"]) for (const id of ids(args)) note(event, id);
  },
};
const jobs = {
  Nap: {
    perform: async (id, ms) => {
      note("s", id);
      await new Promise((done) => setTimeout(done, ms));
      note("e", id);
    },
  },
};
for (const name of ["Wait", "Fail", "Again", "Few", "Turn", "Paced", "Drop", "Alone", "Exit", "Gather", "Collect"]) jobs[name] = once;
const [port, ...queues] = process.argv.slice(2);
const connection = { pkg: "ioredis", host: "127.0.0.1", port: Number(port), namespace: "resque" };
const worker = new Worker({ connection, queues: queues.length > 0 ? queues : ["work"], timeout: 20 }, jobs);
worker.on("error", (error) => console.error(error));
process.on("SIGTERM", () => worker.end().then(() => process.exit(0)));
await worker.connect();
await worker.start();
