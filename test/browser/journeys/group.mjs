// One of several groups of failures is retried, and that is undone.
import assert from "node:assert/strict";
import { person, said, agree, pause, eventually, api, waiting } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  await pause(page, "payments");
  await me.go("/failures");
  await page.getByRole("link", { name: /ChargeCard/ }).first().click();
  await page.getByRole("heading", { level: 1, name: /ChargeCard/ }).waitFor();
  await agree(page, page.getByRole("button", { name: /^Retry 24/ }).first(), /: 24 jobs$/);
  await said(page).filter({ hasText: /24/ }).waitFor();
  await eventually("the jobs wait again", async () => await waiting("payments") === 24);
  await page.getByRole("button", { name: "Undo" }).first().click();
  await eventually("the failures are back", async () => await waiting("payments") === 0);
  assert.ok(JSON.stringify(await api("/failures")).includes("ChargeCard"));
  await me.end();
}
