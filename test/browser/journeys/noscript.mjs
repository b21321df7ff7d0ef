// A browser without script reads every page of the rail, pauses a queue and clears another.
import assert from "node:assert/strict";
import { person, agree, pause, eventually, waiting } from "../lib.mjs";

export default async function () {
  const me = await person({ script: false }), { page } = me;
  const rail = await page.locator("#rail a").evaluateAll(all => all.map(a => a.getAttribute("href")));
  for (const path of rail) {
    assert.equal(await me.go(path), 200, path);
    await page.getByRole("heading", { level: 1 }).waitFor();
  }
  await pause(page, "hooks");
  await me.go("/queues/archive");
  await agree(page, page.getByRole("button", { name: /^Clear…/ }), /^Clear 90 jobs/);
  await eventually("the queue is empty", async () => await waiting("archive") === 0);
  await me.end();
}
