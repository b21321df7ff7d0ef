// goworker dashboard: what the pages gain by a script. Each of them works without it: forms post, links lead.
//
// What a page says to it, by attributes:
//   body        data-live   URL of the stream          data-base   path of the cookies
//               data-now    time of the server         data-status "503": the page could not be made
//   any         data-region with an id: may be replaced by the stream
//               data-open   id of a dialog             data-close  closes its dialog
//               data-copy   text to copy               data-theme-toggle, data-zone (utc, local, fleet)
//               data-key    letter of the action       data-go     letter after g (links of .nav)
//   form        data-bulk   a table with boxes to tick, and a .sel bar in which data-selected, data-n show the number
//   input       name=confirm with data-want: what must be typed before the form may be sent
//   button      data-busy   is off from the moment its form is sent
//   dialog      id=palette  data-palette: URL that takes ?q= and answers [{kind, name, url, end}]
//               id=keys     the list of keys, with a checkbox data-keys that switches them off
"use strict";
(() => {
  const $ = (selector, at = document) => at.querySelector(selector);
  const all = (selector, at = document) => [...at.querySelectorAll(selector)];
  const on = (type, run, options) => document.addEventListener(type, run, options);
  const page = document.body.dataset;
  const policy = window.trustedTypes ? trustedTypes.createPolicy("goworker", { createHTML: text => text }) : { createHTML: text => text };
  const said = $("#said");
  const say = text => { if (said) { said.textContent = ""; setTimeout(() => said.textContent = text, 50) } };

  // The server's HTML as nodes. Nothing of it runs: a template is inert, and the policy of the page allows no inline script.
  function nodes(text) {
    const t = document.createElement("template");
    t.innerHTML = policy.createHTML(text);
    return t.content;
  }
  function element(tag, props = {}, ...children) {
    const e = Object.assign(document.createElement(tag), props);
    e.append(...children);
    return e;
  }

  // Times: the server prints them, here they stay true. The rules are those of relative in format.go.
  const skew = page.now ? Date.now() - Date.parse(page.now) : 0;
  function relative(t) {
    const past = (Date.now() - skew - Date.parse(t.dateTime)) / 1000, s = Math.floor(Math.abs(past)), d = n => String(Math.floor(n));
    if (isNaN(s)) return;
    const text = s < 60 ? s + " s" : s < 3600 ? d(s / 60) + " min" : s < 86400 ? d(s / 3600) + " h " + d(s / 60 % 60).padStart(2, "0") + " min" : d(s / 86400) + " d " + d(s / 3600 % 24) + " h";
    const now = s < 2 ? "now" : past < 0 ? "in " + text : text + " ago";
    if (t.textContent !== now) t.textContent = now;
  }

  // Live: the server sends regions that changed, by their id. A region that the user is in waits until they leave it.
  const waiting = new Map();
  let stream = null, frozen = false, attempt = 0, retry = 0, silent = 0, polling = 0, etag = "";

  const inUse = "input:checked:not([data-was]), details[open]:not([data-was]), dialog[open]" + (window.CSS && CSS.supports("selector(:popover-open)") ? ", :popover-open" : "");
  function busy(region) {
    const at = document.activeElement, chosen = getSelection();
    return at && at !== document.body && at !== document.documentElement && region.contains(at) ||
      chosen && !chosen.isCollapsed && region.contains(chosen.anchorNode) ||
      $(inUse, region);
  }
  // What the server had ticked or opened is not the user's.
  const remember = at => all("input[checked], details[open]", at).forEach(e => e.setAttribute("data-was", ""));
  function place(id, content) {
    const old = document.getElementById(id);
    if (!old) return;
    if (frozen || busy(old)) { waiting.set(id, content); return }
    waiting.delete(id);
    old.replaceWith(content);
    const region = document.getElementById(id);
    if (region) prepare(region);
  }
  const flush = () => { for (const [id, content] of waiting) place(id, content) };

  function away(sentence) {
    let bar = $("#away");
    if (!bar) {
      bar = element("div", { id: "away" });
      bar.setAttribute("role", "status");
      $("#main").prepend(bar);
    }
    bar.hidden = false;
    page.away ||= new Date(Date.now() - skew).toLocaleTimeString("en-GB");
    sentence = sentence.replace(/^goworker: /, "");
    bar.textContent = page.status === "503" ? sentence : `This is from ${page.away}: ${sentence}`;
  }
  function back() {
    if (page.status === "503") { location.reload(); return }
    if (!("away" in page)) return;
    delete page.away;
    const bar = $("#away");
    if (bar) bar.hidden = true;
  }

  function connect() {
    clearTimeout(retry);
    if (!page.live || stream || frozen || document.hidden) return;
    stream = new EventSource(page.live);
    silent = setTimeout(() => { disconnect(); poll() }, 5000); // a proxy that keeps frames back
    const hear = (type, run) => stream.addEventListener(type, e => {
      clearTimeout(silent);
      clearTimeout(polling);
      attempt = 0;
      if (run) run(e.data || "");
    });
    hear("hello"); // the first frame of a page on which nothing changes
    hear("region", data => { const i = data.indexOf(" "); if (i > 0) place(data.slice(0, i), nodes(data.slice(i + 1))) });
    hear("away", away);
    hear("back", back);
    hear("say", say);
    hear("reload", () => location.reload());
    hear("bye", again);
    stream.onerror = async () => {
      const refused = stream && stream.readyState === EventSource.CLOSED;
      again();
      if (!refused) return; // the answer was no stream: its status says what to do
      const stop = new AbortController();
      try {
        const answer = await fetch(page.live, { headers: { Accept: "text/event-stream" }, signal: stop.signal, cache: "no-store" });
        stop.abort();
        if (answer.status === 401) { location.reload(); return }
        if (answer.status === 503) { clearTimeout(retry); poll() } // too many streams
      } catch { /* the server is away */ }
    };
  }
  function disconnect() {
    clearTimeout(silent);
    if (stream) stream.close();
    stream = null;
  }
  function again() {
    disconnect();
    clearTimeout(retry);
    retry = setTimeout(connect, Math.min(30, 2 ** attempt++) * 1000 * (.5 + Math.random()));
  }

  // Without a stream the page asks for itself, each 10 seconds.
  function poll() {
    clearTimeout(polling);
    polling = setTimeout(async () => {
      if (frozen || document.hidden) return;
      try {
        const headers = { Accept: "text/html" };
        if (etag) headers["If-None-Match"] = etag;
        const answer = await fetch(location.href, { headers, cache: "no-store", redirect: "manual" });
        if (answer.status === 401 || answer.type === "opaqueredirect") { location.reload(); return }
        if (answer.status === 200 || answer.status === 503) {
          const fresh = nodes(await answer.text());
          const sentence = $("#away:not([hidden])", fresh);
          if (answer.status === 503 || sentence) away(sentence ? sentence.textContent : "The dashboard cannot read Redis.");
          else {
            etag = answer.headers.get("ETag") || "";
            back();
            for (const region of all("[data-region][id]", fresh)) {
              const old = document.getElementById(region.id);
              if (old && old.outerHTML !== region.outerHTML) place(region.id, region);
            }
          }
        } else if (answer.status === 304) back();
      } catch { away("The dashboard does not answer. It goes on by itself.") }
      poll();
    }, 10000);
  }

  on("visibilitychange", () => {
    if (document.hidden) { disconnect(); clearTimeout(retry); clearTimeout(polling) } else { attempt = 0; connect() }
  });
  addEventListener("pagehide", () => { disconnect(); clearTimeout(retry); clearTimeout(polling) });
  addEventListener("pageshow", e => {
    if (!e.persisted) return;
    all("[aria-busy=true]").forEach(b => { b.disabled = false; b.removeAttribute("aria-busy") });
    connect();
  });

  function freeze() {
    const b = $(".live");
    if (!b) return;
    frozen = !frozen;
    b.setAttribute("aria-pressed", String(!frozen));
    b.textContent = frozen ? "Frozen" : "Live";
    say(frozen ? "The page is frozen" : "The page is live");
    if (frozen) { disconnect(); clearTimeout(retry); clearTimeout(polling) } else { flush(); connect() }
  }

  setInterval(() => {
    if (document.hidden) return;
    flush();
    if (page.now && !frozen) all("time[data-rel]").forEach(relative);
  }, 1000);

  // Plots: a hair line and the values beside it.
  const tip = document.body.appendChild(element("div", { className: "tip" }));
  let hair = null;
  function hideTip() {
    tip.style.visibility = "hidden";
    if (hair) hair.style.visibility = "hidden";
    hair = null;
  }
  on("pointermove", e => {
    const plot = e.target.closest && e.target.closest("[data-plot]");
    if (!plot) { if (hair) hideTip(); return }
    const data = JSON.parse(plot.dataset.plot), n = data.l[0].v.length;
    if (!n) return;
    const box = plot.getBoundingClientRect(), share = Math.min(1, Math.max(0, (e.clientX - box.left) / box.width));
    const i = Math.round(share * (n - 1)), x = n > 1 ? 100 * i / (n - 1) + "%" : "0";
    if (hair && !plot.contains(hair)) hideTip();
    hair = $(".hair", plot);
    hair.setAttribute("x1", x);
    hair.setAttribute("x2", x);
    hair.style.visibility = "visible";
    const at = new Date((data.t0 + i * data.dt + data.z) * 1000).toISOString();
    const lines = data.l.filter(l => i < l.v.length).map(l => (l.v[i] === null ? "?" : l.v[i].toLocaleString("en")) + (l.u.startsWith("/") ? "" : " ") + (l.u + " " + l.n).trim());
    tip.textContent = [data.dt * n > 129600 ? at.slice(5, 16).replace("T", " ") : at.slice(11, data.dt < 60 ? 19 : 16), ...lines].join("\n");
    tip.style.visibility = "visible";
    tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  });
  on("scroll", () => { if (hair) hideTip() }, { passive: true, capture: true });

  // Cookies say what the server should print next time.
  const cookie = (name, value) => { document.cookie = name + "=" + encodeURIComponent(value) + ";path=" + (page.base || "/") + ";max-age=31536000;samesite=lax" };
  function theme() {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
    cookie("theme", root.dataset.theme);
  }
  function zone(name) {
    cookie("zone", name);
    if (name === "local") cookie("tz", Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");
    location.reload();
  }
  async function copy(text) {
    try { await navigator.clipboard.writeText(text) } catch { // plain http has no clipboard
      const area = element("textarea", { value: text, className: "vh" }), from = document.activeElement;
      ($("dialog[open]") || document.body).append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      if (from) from.focus();
    }
    say("Copied");
  }

  // Dialogs. A control that opens one may be a link, which leads to the same form as a page.
  function openDialog(id) {
    const dialog = document.getElementById(id);
    if (!dialog || !dialog.showModal) return false;
    if (!dialog.open) dialog.showModal();
    if (id === "palette") palette.open();
    return true;
  }
  on("click", e => {
    if (e.target.matches("dialog")) { // beside the dialog, on its backdrop
      const r = e.target.getBoundingClientRect();
      if (e.clientX < r.left || e.clientX > r.right || e.clientY < r.top || e.clientY > r.bottom) e.target.close();
      return;
    }
    all("details.menu[open]").forEach(m => { if (!m.contains(e.target)) m.open = false });
    const b = e.target.closest("[data-open],[data-close],[data-theme-toggle],[data-zone],[data-copy],.live");
    if (!b || e.ctrlKey || e.metaKey) return;
    if (b.dataset.open) { if (openDialog(b.dataset.open)) e.preventDefault() }
    else if ("close" in b.dataset) { e.preventDefault(); b.closest("dialog").close() }
    else if ("themeToggle" in b.dataset) theme();
    else if (b.dataset.zone) { e.preventDefault(); zone(b.dataset.zone) }
    else if ("copy" in b.dataset) copy(b.dataset.copy || b.previousElementSibling.textContent);
    else freeze();
  });
  on("submit", e => {
    const form = e.target;
    if ((form.getAttribute("method") || "").toLowerCase() === "post" && "away" in page) { e.preventDefault(); say("Redis is away; nothing can be changed now."); return }
    setTimeout(() => { // after the browser has read the form, the button's own value included
      if (!e.defaultPrevented) all("button[data-busy]", form).forEach(b => { b.disabled = true; b.setAttribute("aria-busy", "true") });
    });
  });

  // A name or a number that must be typed. A number may be typed with or without its commas.
  const plain = text => /^[\d,. ]+$/.test(text) ? text.replace(/\D/g, "") : text;
  function confirmed(input) {
    const fits = plain(input.value.trim()) === plain(input.dataset.want || input.placeholder);
    all("button.kill,[type=submit].kill", input.form).forEach(b => b.disabled = !fits);
  }
  on("input", e => { if (e.target.name === "confirm" && e.target.form) confirmed(e.target) });

  // Selections: the .sel bar of a form shows how many rows are ticked, and the head of the table gives way to it.
  let lastBox = null;
  const boxes = form => all("tbody input[type=checkbox]:not(:disabled)", form);
  function selected(form) {
    const list = boxes(form), n = list.filter(c => c.checked).length, bar = $(".sel", form);
    for (const c of list) { const row = c.closest("tr"); if (row) row.setAttribute("aria-selected", String(c.checked)) }
    for (const c of all("[data-all]", form)) { c.checked = n > 0 && n === list.length; c.indeterminate = n > 0 && n < list.length }
    if (!bar) return;
    bar.classList.toggle("on", n > 0);
    all("[data-selected]", bar).forEach(e => e.textContent = n + " selected");
    all("[data-n]", form).forEach(e => e.textContent = n.toLocaleString("en"));
  }
  function tick(box, range) {
    const form = box.closest("form[data-bulk]");
    if (!form) return;
    const list = boxes(form), to = list.indexOf(box), from = range && lastBox && lastBox !== box ? list.indexOf(lastBox) : -1;
    if (from >= 0) list.slice(Math.min(from, to), Math.max(from, to) + 1).forEach(c => c.checked = box.checked);
    lastBox = box;
    selected(form);
  }
  let shifted = false;
  on("click", e => { shifted = e.shiftKey && e.target.type === "checkbox" }, { capture: true });
  on("change", e => {
    const form = e.target.closest("form[data-bulk]");
    if (!form || e.target.type !== "checkbox") return;
    if (e.target.matches("[data-all]")) {
      const check = e.target.checked && !e.target.closest(".sel");
      boxes(form).forEach(c => c.checked = check);
      selected(form);
    } else if (e.target.closest("tbody")) tick(e.target, shifted);
  });

  // The palette: links of the menu and what the server finds.
  const palette = (() => {
    const dialog = $("#palette"), input = dialog && $("input", dialog), list = dialog && $("ul", dialog);
    let asked = 0, at = -1, timer = 0;
    const links = () => all("a", list);
    function icon(name) {
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), use = document.createElementNS(svg.namespaceURI, "use");
      svg.setAttribute("class", "i");
      svg.setAttribute("aria-hidden", "true");
      use.setAttribute("href", "#i-" + (document.getElementById("i-" + name) ? name : "right"));
      svg.append(use);
      return svg;
    }
    function row(kind, name, url, end) {
      const a = element("a", { href: url }, icon(kind), element("span", { className: "cut", textContent: name }));
      if (end) a.append(element("span", { className: "end", textContent: end }));
      return element("li", {}, a);
    }
    const head = text => element("li", {}, element("h3", { textContent: text }));
    function show(found) {
      const q = input.value.trim().toLowerCase(), rows = [];
      const pages = all(".nav a").filter(a => $("span", a) && $("span", a).textContent.toLowerCase().includes(q));
      if (pages.length) rows.push(head("Pages"), ...pages.slice(0, q ? 6 : 20).map(a => row($("use", a).getAttribute("href").slice(3), $("span", a).textContent, a.href, a.dataset.go ? "g " + a.dataset.go : "")));
      if (found.length) rows.push(head("Found"), ...found.map(f => row(f.kind, f.name, f.url, f.end)));
      list.replaceChildren(...rows);
      choose(q && links().length ? 0 : -1);
    }
    function choose(i) {
      const a = links();
      at = a.length ? Math.max(-1, Math.min(a.length - 1, i)) : -1;
      a.forEach((e, n) => { e.id = "pal-" + n; e.setAttribute("aria-selected", String(n === at)) });
      if (at >= 0) { a[at].scrollIntoView({ block: "nearest" }); input.setAttribute("aria-activedescendant", "pal-" + at) } else input.removeAttribute("aria-activedescendant");
    }
    async function ask() {
      const q = input.value.trim(), me = ++asked, url = dialog.dataset.palette;
      if (!q || !url) return;
      try {
        const answer = await fetch(url + (url.includes("?") ? "&" : "?") + "q=" + encodeURIComponent(q), { headers: { Accept: "application/json" } });
        const found = answer.ok ? await answer.json() : [];
        if (me === asked) show(found.filter(f => new URL(f.url, location.href).origin === location.origin).slice(0, 20));
      } catch { /* the links of the menu are there */ }
    }
    if (dialog) {
      input.addEventListener("input", () => { asked++; show([]); clearTimeout(timer); timer = setTimeout(ask, 150) });
      dialog.addEventListener("keydown", e => {
        if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); choose(at + (e.key === "ArrowDown" ? 1 : -1)) }
        else if (e.key === "Enter" && at >= 0 && e.target === input) { e.preventDefault(); links()[at].click() }
      });
    }
    return { open() { show([]); input.select(); if (input.value) ask() } };
  })();

  // Keys. Each has a visible equivalent. They are off while typing, and where the user switched them off.
  const kept = {
    get off() { try { return localStorage.getItem("goworker.keys") === "off" } catch { return false } },
    set off(is) { try { localStorage.setItem("goworker.keys", is ? "off" : "on") } catch { /* no storage: until the next page */ } },
  };
  on("change", e => { if (e.target.matches("[data-keys]")) kept.off = !e.target.checked });
  let lead = 0;
  const rows = () => all("main tbody tr, main .list a").filter(r => r.offsetParent && !r.closest("[aria-hidden=true]"));
  const current = () => (document.activeElement || document.body).closest("tbody tr, .list a") || $("tr.at");
  function move(by) {
    const list = rows(), at = list.indexOf(current()), inRow = document.activeElement.closest("tbody tr, .list a");
    const next = list[Math.max(0, Math.min(list.length - 1, inRow ? at + by : Math.max(0, at)))];
    if (!next) return;
    all("tr.at").forEach(r => r.classList.remove("at"));
    if (next.matches("tr")) next.classList.add("at");
    const target = next.matches("a") ? next : $("a", next) || next;
    if (target === next && !next.matches("a")) next.tabIndex = -1;
    target.focus();
    next.scrollIntoView({ block: "nearest" });
  }
  // The control of a letter: in the bar of a selection, in the row, else the page's own.
  function control(letter) {
    const selector = '[data-key="' + letter + '"]', row = current();
    return $(".sel.on " + selector) || row && $(selector, row) || all(selector).find(e => !e.closest("tr, dialog, .sel"));
  }
  const texts = e => e.isContentEditable || /^(TEXTAREA|SELECT)$/.test(e.tagName) || e.tagName === "INPUT" && !/^(checkbox|radio|button|submit)$/.test(e.type);
  const typing = e => texts(e) && e.getClientRects().length > 0; // the field of a dialog that has closed keeps the focus until the next frame

  on("keydown", e => {
    if ((e.ctrlKey || e.metaKey) && !e.altKey && e.key.toLowerCase() === "k" && $("#palette")) { e.preventDefault(); openDialog("palette"); return }
    if (e.key === "Escape") { escape(); return }
    if (kept.off || e.ctrlKey || e.metaKey || e.altKey || e.isComposing || typing(e.target) || $("dialog[open]")) return;
    if (Date.now() - lead < 1500) {
      lead = 0;
      const link = $('.nav a[data-go="' + CSS.escape(e.key) + '"]');
      if (link) { e.preventDefault(); link.click(); return }
    }
    const row = current();
    const acts = {
      "g": () => lead = Date.now(),
      "/": () => { const f = $(".find input:not([type=hidden])"); if (f) { f.focus(); f.select() } else openDialog("palette") },
      "?": () => openDialog("keys"),
      "j": () => move(1), "k": () => move(-1),
      "x": () => pick(row, false), "X": () => pick(row, true),
      ".": () => menu(row),
      "l": freeze, "t": theme,
    };
    if (acts[e.key]) { e.preventDefault(); acts[e.key]() }
    else if (e.key === "Enter" && row && (e.target === row || e.target === document.body || e.target.type === "checkbox")) { const a = row.matches("a") ? row : $("a", row); if (a) { e.preventDefault(); a.click() } }
    else if (/^[rdpe]$/.test(e.key)) { const b = control(e.key); if (b && !b.disabled) { e.preventDefault(); b.click() } }
  });
  function pick(row, range) {
    const box = row && $("input[type=checkbox]", row);
    if (!box || box.disabled) return;
    box.checked = range || !box.checked;
    tick(box, range);
  }
  function menu(row) {
    const m = row && $("details.menu", row);
    if (!m) return;
    m.open = true;
    const first = $("ul a, ul button", m);
    if (first) first.focus();
  }
  function escape() {
    const open = $("details.menu[open]");
    if (open) { open.open = false; $("summary", open).focus(); return }
    if ($("dialog[open]")) return;
    if (typing(document.activeElement)) { document.activeElement.blur(); return }
    for (const form of all("form[data-bulk]")) { boxes(form).forEach(c => c.checked = false); selected(form) }
  }

  // What each page, and each region that comes later, is made ready by.
  function prepare(at) {
    remember(at);
    all("input[name=confirm]", at).filter(i => i.form).forEach(confirmed);
    (at.closest && at.closest("form[data-bulk]") ? [at.closest("form[data-bulk]")] : all("form[data-bulk]", at)).forEach(selected);
  }
  prepare(document);
  const keys = $("[data-keys]");
  if (keys) keys.checked = !kept.off;
  const flash = $(".flash");
  if (flash) say($("div, p", flash) ? $("div, p", flash).textContent : flash.textContent);
  connect();
})();
