// Runs one journey: node run.mjs journeys/x.mjs. What goes wrong goes to standard error, with a status other than 0.
import process from "node:process";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { launch, quit } from "./lib.mjs";

const journey = await import(pathToFileURL(path.resolve(process.argv[2])));
await launch();
try {
  await journey.default();
} catch (e) {
  process.exitCode = 1;
  process.stderr.write(`${e?.stack ?? e}\n`);
} finally {
  await quit();
}
