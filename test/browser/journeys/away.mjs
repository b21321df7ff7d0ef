// Redis goes and comes back: the page says so, keeps what it has, and goes on by itself.
import assert from "node:assert/strict";
import { person, control, places } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  await me.go("/queues");
  await page.getByRole("link", { name: /archive/ }).first().waitFor();
  await control("/redis/stop");
  const bar = page.locator("#away");
  await bar.filter({ hasText: /\d\d:\d\d:\d\d/ }).waitFor();
  await page.getByRole("link", { name: /archive/ }).first().waitFor();
  const other = await me.context.newPage();
  const answer = await other.goto(places.dashboard + "/failures");
  assert.ok([200, 503].includes(answer.status()), `${answer.status()}`);
  await other.close();
  await control("/redis/start");
  await bar.waitFor({ state: "hidden" });
  await control("/push?queue=archive&class=Archive&n=7");
  await page.getByText(/\b97\b/).first().waitFor();
  me.messages.length = 0; // the browser tells of answers with 503
  await me.end();
}
