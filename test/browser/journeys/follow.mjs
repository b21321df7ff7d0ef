// One job is followed from its push over a failed try to its result, on a page that is not loaded again.
import { person, control, shows } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  const id = await control("/push?queue=mail&class=Follow&n=1");
  await me.go("/jobs/" + id);
  await shows(page, /Follow/);
  await shows(page, /not yet/);
  await control("/follow");
  await shows(page, /done 0/);
  await me.go("/jobs?state=done");
  await page.getByRole("link", { name: /Follow/ }).first().waitFor();
  await me.end();
}
