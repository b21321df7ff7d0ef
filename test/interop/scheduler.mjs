// node scheduler.mjs PORT
// A node-resque scheduler that is as eager as it can be: it looks for delayed
// jobs and dead workers twenty times a second, takes a worker for dead after a
// second without a ping, and retries what it has so failed.
// Prints {"event":"leader"}, then {"event":"poll","n"} and all it does.
import process from "node:process";
import nodeResque from "node-resque";
import { connection, fail, say, untilStdinCloses } from "./connect.mjs";

const [port] = process.argv.slice(2);
try {
  const scheduler = new nodeResque.Scheduler({
    connection: connection(port),
    timeout: 50,
    stuckWorkerTimeout: 1000,
    retryStuckJobs: true,
  });
  let polls = 0;
  scheduler.on("error", fail);
  scheduler.on("leader", () => say({ event: "leader", name: scheduler.name }));
  scheduler.on("poll", () => say({ event: "poll", n: ++polls }));
  scheduler.on("cleanStuckWorker", (name) => say({ event: "cleaned", name }));
  scheduler.on("transferredJob", (timestamp, job) => say({ event: "transferred", class: job.class }));
  await scheduler.connect();
  await scheduler.start();
  untilStdinCloses(() => scheduler.end());
} catch (error) {
  fail(error);
}
