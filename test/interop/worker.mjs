// node worker.mjs PORT QUEUE...
// A node-resque worker with three classes: Echo returns its arguments, Boom throws, and Approve is a step of a workflow
// whose last argument is a token: it replies with the arguments before that, or with an error if the first is "no".
// Prints {"event":"start","name"}, then one line for each job it has run.
import process from "node:process";
import nodeResque from "node-resque";
import { connection, fail, say, untilStdinCloses } from "./connect.mjs";

const [port, ...queues] = process.argv.slice(2);
const replies = new nodeResque.Queue({ connection: connection(port) });
const jobs = {
  Approve: {
    perform: async (...args) => {
      const token = args.pop();
      const reply = args[0] === "no" ? [token, null, "refused by Node"] : [token, { approved: args }];
      await replies.enqueue("go", "goworker.Complete", reply);
    },
  },
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
  replies.on("error", fail);
  await replies.connect();
  await worker.connect();
  await worker.start();
  say({ event: "start", name: worker.name });
  untilStdinCloses(() => worker.end().then(() => replies.end()));
} catch (error) {
  fail(error);
}
