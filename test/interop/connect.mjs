// What all scripts here share: the connection, and how they talk to the test.
// Standard output holds one JSON value a line; what goes wrong goes to standard
// error and ends the script with a status other than 0.
import process from "node:process";

export function connection(port) {
  return { pkg: "ioredis", host: "127.0.0.1", port: Number(port), namespace: "resque" };
}

export function say(value) {
  process.stdout.write(JSON.stringify(value ?? null) + "\n");
}

export function fail(error) {
  process.stderr.write(`${error?.stack ?? error}\n`);
  process.exit(1);
}

// Runs until the test closes our standard input, which also happens when the
// test dies.
export function untilStdinCloses(end) {
  process.stdin.resume();
  process.stdin.once("end", () => end().then(() => process.exit(0), fail));
}
