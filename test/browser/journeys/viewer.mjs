// A viewer looks at every page, finds no button that changes anything, and cannot change anything either.
import assert from "node:assert/strict";
import { person, places, waiting } from "../lib.mjs";

export default async function () {
  const me = await person({ viewer: true }), { page } = me;
  await me.go("/");
  await page.getByText("bob").first().waitFor();
  const rail = await page.locator("#rail a").evaluateAll(all => all.map(a => a.getAttribute("href")));
  for (const path of [...rail, "/queues/archive"]) {
    assert.equal(await me.go(path), 200, path);
    const changing = await page.locator("form[method=post] button:not([type=button]), button[form]").evaluateAll(all => all.map(b => b.textContent.trim()));
    assert.deepEqual(changing, [], path);
  }
  const refused = await fetch(places.dashboard + "/queues/archive/pause", { method: "POST", headers: { Authorization: "Bearer " + places.viewer } });
  assert.equal(refused.status, 403);
  assert.equal(await waiting("archive"), 90);
  await me.end();
}
