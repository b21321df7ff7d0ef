// node worker.mjs PORT QUEUE...
// A node-resque worker with two classes: Echo returns its arguments, Boom throws.
// Prints {"event":"start","name"}, then one line for each job it has run.
import process from "node:process";
import nodeResque from "node-resque";
import { connection, fail, say, untilStdinCloses } from "./connect.mjs";

const [port, ...queues] = process.argv.slice(2);
const jobs = {
  Echo: { perform: async (...args) => args },
  Boom: {
    perform: async (message) => {
      throw new TypeError(message);
    },
  },
};
try {
  const worker = new nodeResque.Worker({ connection: connection(port), queues, timeout: 20 }, jobs);
  worker.on("error", fail);
  worker.on("success", (queue, job, result) => say({ event: "success", queue, class: job.class, result }));
  worker.on("failure", (queue, job, error) => say({ event: "failure", queue, class: job?.class, error: error.message }));
  await worker.connect();
  await worker.start();
  say({ event: "start", name: worker.name });
  untilStdinCloses(() => worker.end());
} catch (error) {
  fail(error);
}
