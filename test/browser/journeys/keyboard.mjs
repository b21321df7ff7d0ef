// A person without a mouse gets everywhere, and sees where the focus is.
import assert from "node:assert/strict";
import { person, places, eventually } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the page");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await eventually("g and q lead to the queues", async () => { // q counts for 1.5 s, which a busy machine may need between two keys
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await page.waitForURL(places.dashboard + "/queues", { timeout: 10_000 });
    return true;
  });
  await page.keyboard.press("/");
  await page.keyboard.type("arch");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=arch/);
  await page.locator("body").press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/queues\/archive/);
  await page.goBack();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
  await page.keyboard.press("Control+k");
  await page.getByRole("dialog", { name: "Search or jump" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Search or jump" }).waitFor({ state: "hidden" });
  const was = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.locator("body").press("t");
  await page.waitForFunction(was => getComputedStyle(document.body).backgroundColor !== was, was);
  await page.evaluate(() => { // a key that comes before the browser takes the focus from the field of a closed dialog
    const dialog = document.querySelector("#palette");
    dialog.showModal();
    dialog.close();
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "t", bubbles: true }));
  });
  await page.waitForFunction(was => getComputedStyle(document.body).backgroundColor === was, was);
  const button = page.getByRole("link", { name: "Pause archive", exact: true });
  for (let n = 0; n < 80 && !await button.evaluate(b => b === document.activeElement); n++) await page.keyboard.press("Tab");
  const ring = await button.evaluate(b => ({ here: b === document.activeElement, width: getComputedStyle(b).outlineWidth }));
  assert.deepEqual(ring, { here: true, width: "2px" });
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Pause it" }).first().waitFor();
  await me.end();
}
