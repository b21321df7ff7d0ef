// node queue.mjs PORT METHOD [ARGUMENTS AS A JSON ARRAY]
// Calls one method of node-resque's Queue and prints what it returned.
import process from "node:process";
import nodeResque from "node-resque";
import { connection, fail, say } from "./connect.mjs";

const [port, method, args = "[]"] = process.argv.slice(2);
try {
  const queue = new nodeResque.Queue({ connection: connection(port) });
  queue.on("error", fail);
  await queue.connect();
  say(await queue[method](...JSON.parse(args)));
  await queue.end();
} catch (error) {
  fail(error);
}
