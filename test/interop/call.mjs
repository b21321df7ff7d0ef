// node call.mjs PORT QUEUE FUNCTION ARGUMENTS
// Calls a function of a Go program as docs/calling.md says, and says its result or its error.
import { randomUUID } from "node:crypto";
import process from "node:process";
import nodeResque from "node-resque";
import { connection, fail, say, untilStdinCloses } from "./connect.mjs";

const [port, name, func, args] = process.argv.slice(2);
const over = ["failed", "discarded", "cancelled", "expired"];
try {
  const queue = new nodeResque.Queue({ connection: connection(port) });
  queue.on("error", fail);
  await queue.connect();
  const { redis } = queue.connection;
  const id = randomUUID();
  const document = `resque:go:result:${id}`;
  await redis
    .multi()
    .hset(document, "state", "pending", "class", func, "queue", name)
    .expire(document, 3600)
    .sadd("resque:queues", name)
    .rpush(`resque:queue:${name}`, JSON.stringify({ class: func, args: JSON.parse(args), result: 3600000, id }))
    .exec();
  for (;;) {
    const [state, result, error] = await redis.hmget(document, "state", "result", "error");
    if (state === "done") say({ Event: "result", Result: JSON.parse(result ?? "null") });
    else if (over.includes(state)) say({ Event: "error", Error: error });
    if (state !== "pending" && state !== "running") break;
    await new Promise((later) => setTimeout(later, 10));
  }
  untilStdinCloses(() => queue.end());
} catch (error) {
  fail(error);
}
