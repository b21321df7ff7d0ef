// On a phone the first screen says what needs its owner, and what fails is retried with a thumb.
import assert from "node:assert/strict";
import { person, phone, control, agree, said } from "../lib.mjs";

export default async function () {
  const me = await person({ size: phone, touch: true }), { page } = me;
  const bottom = async l => { const b = await l.boundingBox(); return b.y + b.height };
  const bar = (await page.locator("#rail").boundingBox()).y;
  assert.ok(bar > phone.height * .85, `the bar of pages begins at ${bar}`);
  const notices = page.getByRole("region", { name: "What needs you" }).locator(".note");
  await notices.first().waitFor();
  const shown = Math.min(3, await notices.count());
  assert.ok(await bottom(notices.nth(shown - 1)) <= bar, "the first notices are on the first screen");
  const tile = page.getByRole("region", { name: "The fleet now" }).getByRole("link").first();
  assert.ok(await bottom(tile) <= bar, `the first tile ends at ${await bottom(tile)}, the screen at ${bar}`);
  for (const l of await page.locator("#rail a:visible, #rail button:visible").all()) {
    const b = await l.boundingBox();
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
