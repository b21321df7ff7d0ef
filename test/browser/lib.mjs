// What the journeys share: a browser, the fleet's places, and what is looked at on every page.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

export const places = JSON.parse(process.env.PLACES);

// How long anything may take. Nothing here needs a thirtieth of it on an idle machine.
const patience = 60_000;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const desktop = { width: 1440, height: 900 };
export const tablet = { width: 768, height: 1024 };
export const phone = { width: 390, height: 844 };

let browser;

export async function launch() {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
}

export const quit = () => browser.close();

// A person is a browser that has come in: size, theme, script, and the viewer's token or the admin's.
export async function person({ size = desktop, theme = "light", script = true, viewer = false, touch = false } = {}) {
  const context = await browser.newContext({
    viewport: size, colorScheme: theme, javaScriptEnabled: script, hasTouch: touch, reducedMotion: "reduce",
    extraHTTPHeaders: viewer ? { Authorization: "Bearer " + places.viewer } : {},
  });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const messages = [];
  page.on("console", m => {
    // Chromium says so where a key moved the focus before the page had loaded.
    if (!m.text().startsWith("Autofocus processing was blocked")) messages.push(`${m.type()}: ${m.text()} (${page.url()})`);
  });
  page.on("pageerror", e => messages.push(`error: ${e.message} (${page.url()})`));
  const me = {
    page, context, messages,
    // go opens a page of the dashboard, and returns its status.
    async go(path) { return (await page.goto(places.dashboard + path)).status() },
    async end() {
      await context.close();
      assert.deepEqual(messages, [], "the console stays silent");
    },
  };
  if (!viewer) {
    await page.goto(places.dashboard + "/?token=" + places.admin);
    await page.waitForURL(places.dashboard + "/");
  }
  return me;
}

// control changes the fleet beside the dashboard.
export async function control(path) {
  const answer = await fetch(places.control + path, { method: "POST" });
  const text = (await answer.text()).trim();
  assert.ok(answer.ok, `${path}: ${text}`);
  return text;
}

// api asks for a page as JSON.
export async function api(path) {
  const answer = await fetch(places.dashboard + "/api/v1" + path, { headers: { Authorization: "Bearer " + places.admin } });
  assert.ok(answer.ok, `GET ${path}: ${answer.status}`);
  return answer.json();
}

export async function eventually(what, check) {
  const until = Date.now() + patience;
  let last;
  for (;;) {
    try { last = await check(); if (last) return last } catch (e) { last = e }
    if (Date.now() > until) throw new Error(`${what}: ${last instanceof Error ? last.message : last}`);
    await new Promise(r => setTimeout(r, 100));
  }
}

// waiting is how many jobs wait in a queue.
export async function waiting(queue) {
  const list = await api("/queues?q=" + encodeURIComponent(queue));
  const row = list.queues.find(q => q.name === queue);
  return row ? row.waiting.n ?? row.waiting.value ?? row.waiting : 0;
}

export const said = page => page.getByRole("status").filter({ hasText: /\S/ }).first();

// shows waits until a page has a text.
export const shows = (page, text) => page.getByText(text).filter({ visible: true }).first().waitFor();

// agree presses a button and says yes to what is asked then, in a dialog or on a page. It types what has to be typed.
export async function agree(page, open, yes, { tap = false } = {}) {
  const press = button => tap ? button.tap() : button.click();
  await press(open);
  const answer = page.getByRole("button", { name: yes }).filter({ visible: true }).first();
  await answer.waitFor();
  const typed = page.locator("input[name=confirm]").filter({ visible: true });
  if (await typed.count()) await typed.fill(await typed.getAttribute("placeholder"));
  await press(answer);
}

// pause pauses a queue from the list of queues.
export async function pause(page, queue) {
  await page.goto(places.dashboard + "/queues");
  await page.getByRole("link", { name: "Pause " + queue, exact: true }).click();
  await page.getByRole("button", { name: "Pause it" }).filter({ visible: true }).first().click();
  await said(page).filter({ hasText: queue }).waitFor();
}

// look finds what is wrong with a page as it is now.
export async function look(page, { inspectAxe = true } = {}) {
  const wrong = await page.evaluate(() => {
    const wrong = [];
    const visible = e => e.checkVisibility() && e.getBoundingClientRect().width > 0;
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (wide > 0) {
      const past = [...document.querySelectorAll("main *")].filter(e => visible(e) && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
        .filter(e => !e.closest(".scroll")).slice(-3).map(e => e.outerHTML.slice(0, 120));
      wrong.push(`it is ${wide} px wider than the window: ${past.join(" | ")}`);
    }
    const heads = [...document.querySelectorAll("h1")].filter(visible).length;
    if (heads !== 1) wrong.push(`${heads} h1`);
    for (const [name, selector, least] of [["main", "main", 1], ["header", "body > header", 1], ["nav", "nav[aria-label]", 1]]) {
      const n = document.querySelectorAll(selector).length;
      if (n < least || name !== "nav" && n > 1) wrong.push(`${n} landmarks ${name}`);
    }
    for (const n of document.querySelectorAll(".nav a .n")) {
      if (!visible(n)) continue;
      const a = n.closest("a").getBoundingClientRect(), b = n.getBoundingClientRect();
      if (b.left < a.left - 1 || b.right > a.right + 1 || b.top < a.top - 1 || b.bottom > a.bottom + 1) wrong.push(`the count ${n.textContent} leaves its tab ${n.closest("a").dataset.tab}`);
    }
    const rows = new Map();
    for (const p of document.querySelectorAll(".cols > .panel")) {
      if (!visible(p)) continue;
      const box = p.getBoundingClientRect(), top = Math.round(box.top);
      rows.set(top, [...rows.get(top) ?? [], Math.round(box.bottom)]);
    }
    for (const [top, bottoms] of rows) if (Math.max(...bottoms) - Math.min(...bottoms) > 1) wrong.push(`the panels at ${top} end at ${bottoms.join(", ")}`);
    return wrong;
  });
  if (inspectAxe) {
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    for (const v of found.violations) wrong.push(`axe ${v.id}: ${v.help}: ` + v.nodes.slice(0, 3).map(n => `${n.target.join(" ")} ${n.html.slice(0, 140)} ${(n.any[0] ?? n.all[0] ?? n.none[0])?.message ?? ""}`).join(" | "));
  }
  return wrong;
}

// shape is what pages of the same kind have in common: /queues/mail and /queues/low are one.
export function shape(url) {
  const u = new URL(url, places.dashboard);
  const [first, ...rest] = u.pathname.split("/").filter(Boolean);
  const fixed = new Set(["groups", "keys", "slow", "job", "new"]);
  const views = (first === "events" ? [] : ["by", "in", "v", "kind"]).filter(n => u.searchParams.get(n)).map(n => `${n}=${u.searchParams.get(n)}`);
  return "/" + [first ?? "", ...rest.map(r => fixed.has(r) ? r : "*")].join("/") + (views.length ? "?" + views.join("&") : "");
}

// walk visits one page of each kind: those of the rail first, then those that these lead to. visit gets the kind, the address and the
// answer of each.
export async function walk(page, visit) {
  const seen = new Map(), steps = 3; // from the overview
  const links = selector => page.locator(selector).evaluateAll(all => all.map(a => new URL(a.getAttribute("href"), location).href)); // in a plot a link has another type of href
  const add = (urls, step) => {
    for (const url of urls) {
      const u = new URL(url);
      if (u.origin !== places.dashboard || /^\/(assets|api|palette)|\/export$/.test(u.pathname) || u.searchParams.has("after")) continue;
      if (!seen.has(shape(url))) seen.set(shape(url), { url, step });
    }
  };
  add([places.dashboard + "/"], 0);
  for (const [kind, { url, step }] of seen) { // it grows meanwhile
    const answer = await page.goto(url);
    if (step === 0) add(await links("#rail a"), 1);
    if (step < steps) add(await links("main a[href]"), step + 1);
    await visit(kind, url, answer);
  }
  return [...seen.keys()];
}
