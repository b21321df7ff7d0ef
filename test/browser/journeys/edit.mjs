// The arguments of a failed job are edited, and it runs with them.
import { person, said, control, eventually, api } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  await control("/mend");
  await me.go("/failures?by=each&q=class:ChargeCard");
  const [, id] = /"id":"([0-9a-f]{28})"/.exec(JSON.stringify(await api("/failures?by=each&q=class:ChargeCard")));
  await page.locator(`main a[href^="/failures/${id}"]`).first().click();
  await page.getByRole("link", { name: "Edit and run" }).first().click();
  await page.getByRole("textbox", { name: /^Arguments/ }).fill('[9007199254740993, "acme"]');
  await page.getByRole("button", { name: "Run the edited job" }).click();
  await said(page).filter({ hasText: /\S/ }).waitFor();
  await eventually("the audit has it", async () => JSON.stringify(await api("/audit")).includes("ann"));
  await me.end();
}
