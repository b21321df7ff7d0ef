// On a phone the first screen says what needs its owner, and what fails is retried with a thumb.
import assert from "node:assert/strict";
import { person, phone, control, agree, said, eventually } from "../lib.mjs";

export default async function () {
  const me = await person({ size: phone, touch: true }), { page } = me;
  // What the live page replaces just now has no box: it is asked for again.
  const box = l => eventually("it has a place", () => l.boundingBox());
  const bottom = async l => { const b = await l.boundingBox(); return b.y + b.height };
  const bar = (await box(page.locator("#rail"))).y;
  assert.ok(bar > phone.height * .85, `the bar of pages begins at ${bar}`);
  const notices = page.getByRole("region", { name: "What needs you" }).locator(".note");
  await notices.first().waitFor();
  await eventually("the first notices are on the first screen", async () => {
    const shown = Math.min(3, await notices.count());
    return shown > 0 && await bottom(notices.nth(shown - 1)) <= bar;
  });
  const tile = page.getByRole("region", { name: "The fleet now" }).getByRole("link").first();
  await eventually("the first tile is on the first screen", async () => await bottom(tile) <= bar);
  for (const l of await page.locator("#rail a:visible, #rail button:visible").all()) {
    const b = await box(l);
    assert.ok(b.width >= 44 && b.height >= 44, "tabs are as large as a thumb");
  }
  await control("/mend");
  await page.locator("#rail").getByRole("link", { name: /Failures/ }).tap();
  await page.getByRole("main").getByRole("link", { name: /ChargeCard/ }).first().tap();
  await page.getByRole("heading", { level: 1, name: /ChargeCard/ }).waitFor();
  await agree(page, page.getByRole("button", { name: /^Retry 24/ }).first(), /: 24 jobs$/, { tap: true });
  await said(page).filter({ hasText: /24/ }).waitFor();
  await me.end();
}
