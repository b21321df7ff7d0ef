// A process gets more workers.
import { person, said, eventually } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  await me.go("/processes");
  await page.getByRole("link", { name: /web-1/ }).first().click();
  await page.getByRole("button", { name: "Workers…" }).click();
  await page.getByRole("textbox", { name: "Workers" }).fill("9");
  await page.getByRole("button", { name: "Change 1 process" }).filter({ visible: true }).click();
  await said(page).waitFor();
  await eventually("the process has nine workers", async () => {
    await page.reload();
    await page.getByRole("button", { name: "Workers…" }).click();
    return await page.getByRole("textbox", { name: "Workers" }).inputValue() === "9";
  });
  await me.end();
}
