// Makes the pictures of the docs: node pictures.mjs directory. make pictures makes small WebP files of them.
import { writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { person, walk, launch, quit, control, eventually, api, desktop, phone } from "./lib.mjs";

const dir = process.argv[2];
await launch();
try {
  await control("/follow");
  const id = await control("/push?queue=mail&class=Follow&n=1");
  const me = await person(), kinds = new Map();
  await eventually("the job is done", async () => JSON.stringify(await api("/jobs/" + id)).includes("done 0"));
  await walk(me.page, (kind, url) => kinds.set(kind, new URL(url).pathname));
  for (const [name, kind, size, theme] of [
    ["overview", "/", desktop, "light"], ["overview-dark", "/", desktop, "dark"], ["overview-phone", "/", phone, "light"],
    ["queue", "/queues/nightly", desktop, "light"], ["failures", "/failures", desktop, "light"], ["group", "/failures/groups/*", desktop, "light"],
    ["job", "/jobs/" + id, desktop, "light"], ["job-phone", "/jobs/" + id, phone, "dark"], ["workflow", "/workflows/review-1", desktop, "light"],
    ["schedule", "/schedule", desktop, "light"], ["classes", "/classes", desktop, "dark"], ["process", "/processes/*", desktop, "light"],
  ]) {
    const one = await person({ size, theme }), { page } = one;
    const status = await one.go(kinds.get(kind) ?? kind);
    if (status !== 200) throw new Error(`${name}: ${kind} has the status ${status}`);
    const png = await page.screenshot({ fullPage: size !== phone });
    writeFileSync(path.join(dir, name + ".png"), png);
    await one.end();
  }
  me.messages.length = 0; // the walk meets pages that have left
  await me.end();
} catch (e) {
  process.exitCode = 1;
  process.stderr.write(`${e?.stack ?? e}\n`);
} finally {
  await quit();
}
