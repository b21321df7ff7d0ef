// Why does a queue grow? The overview names it, and its page says that nobody works it.
import { person, shows } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  const notices = page.getByRole("region", { name: "What needs you" });
  await notices.getByText(/nightly/).first().waitFor();
  await page.getByRole("link", { name: /nightly/ }).first().click();
  await page.getByRole("heading", { level: 1, name: /nightly/ }).waitFor();
  await shows(page, /nobody/i);
  await me.end();
}
