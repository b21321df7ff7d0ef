// Looks at every page: node pages.mjs 1440 light. SHOTS names a directory for pictures of them.
import assert from "node:assert/strict";
import path from "node:path";
import process from "node:process";
import { person, walk, look, launch, quit, desktop, tablet, phone } from "./lib.mjs";

const [width, theme] = process.argv.slice(2);
const size = { 1440: desktop, 768: tablet, 390: phone }[width];
await launch();
try {
  const me = await person({ size, theme }), { page } = me;
  const wrong = [];
  const kinds = await walk(page, async (kind, url, answer) => {
    const say = text => wrong.push(`${kind} (${url}): ${text}`);
    if (answer.status() !== 200) return say(`status ${answer.status()}`);
    for (const text of await look(page, { inspectAxe: size !== tablet })) say(text);
    if (process.env.SHOTS) {
      const name = kind.replaceAll("*", "one").replace(/[^a-z0-9=]+/g, "-").replace(/^-|-$/g, "") || "overview";
      await page.screenshot({ path: path.join(process.env.SHOTS, `${name}.${theme}.${width}.png`), fullPage: true });
    }
  });
  assert.ok(kinds.length > 2, "the overview leads somewhere");
  wrong.push(...new Set(me.messages.filter(m => !m.includes("status of 404")))); // those are said above
  me.messages.length = 0;
  await me.end();
  process.stdout.write(`${kinds.length} pages: ${kinds.join(" ")}\n`);
  if (wrong.length) {
    process.exitCode = 1;
    process.stderr.write(wrong.join("\n") + "\n");
  }
} catch (e) {
  process.exitCode = 1;
  process.stderr.write(`${e?.stack ?? e}\n`);
} finally {
  await quit();
}
