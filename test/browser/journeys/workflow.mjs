// A workflow that waits outside is cancelled.
import { person, agree, shows } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  await me.go("/workflows");
  await page.getByRole("main").getByRole("link", { name: /review/ }).first().click();
  await page.getByRole("heading", { level: 1, name: /review/ }).waitFor();
  await shows(page, /outside/i);
  await agree(page, page.getByRole("button", { name: /^Cancel/ }).first(), /^Cancel \d+ step/);
  await shows(page, /cancelled/i);
  await me.end();
}
