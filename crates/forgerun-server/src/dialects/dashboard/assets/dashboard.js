// What the dashboard adds where scripts run: pages that stay up to date, times that stay true, copying, keys. Nothing depends on it.

const REFRESH_MS = 1000;      // not more often, however much happens
const LOOK_MS = 15000;        // and now and then although nothing seems to happen
const NEWS = ["job-created", "job-queued", "job-assigned", "job-requeued", "job-started", "job-progress", "job-event-emitted",
  "job-completed", "job-retrying", "job-failed", "job-timed-out", "job-completed-with-errors", "job-cancelled",
  "webhook-disabled", "reset"];

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const byId = id => document.getElementById(id);

// Times

function shortSpan(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

function showTimes(root = document) {
  for (const time of all("time[datetime]", root)) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const ago = (Date.now() - at) / 1000;
    const text = ago < -0.5 ? `in ${shortSpan(-ago)}` : ago < 1 ? "now" : `${shortSpan(ago)} ago`;
    if (time.textContent !== text) time.textContent = text;
    time.title = new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  }
}

// Copying

function showCopying(root = document) {
  for (const button of all("[data-copy]", root)) button.hidden = false;
}

document.addEventListener("click", async event => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// Staying up to date: the same page is fetched again, and the parts that differ take the place of the old ones.

const live = byId("live");
let isLive = live !== null && document.querySelector("[data-live]") !== null;
let lastFetch = 0, waiting = null, isFetching = false;

function say(state, word) {
  live.dataset.state = state;
  live.querySelector(".word").textContent = word;
}

// A part that somebody works with stays as it is.
function isInUse(part) {
  const focus = document.activeElement;
  const isTyping = focus && part.contains(focus) && focus.matches("input:not([type=checkbox]), select, textarea");
  return isTyping || part.querySelector("input[name=job]:checked") !== null || !getSelection().isCollapsed && part.contains(getSelection().anchorNode);
}

function replace(part, fresh) {
  const open = all("details[open][id]", part).map(details => details.id);
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") ?? document.activeElement.getAttribute("value") : null;
  const here = part.querySelector("tr.here");
  const hereKey = here && rowKey(here);
  for (const id of open) fresh.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  const known = new Set(all("tr[data-job-id]", part).map(rowKey));
  showTimes(fresh);
  showCopying(fresh);
  part.replaceWith(fresh);
  for (const row of all("tr[data-job-id]", fresh)) if (known.size > 0 && !known.has(rowKey(row))) row.classList.add("fresh");
  if (hereKey) all("tr", fresh).find(row => rowKey(row) === hereKey)?.classList.add("here");
  if (focused) all("a, button", fresh).find(item => (item.getAttribute("href") ?? item.getAttribute("value")) === focused)?.focus({ preventScroll: true });
  prepare(fresh);
}

async function refresh() {
  waiting = null;
  if (!isLive || document.hidden || isFetching) return;
  isFetching = true;
  lastFetch = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "follow" });
    if (answer.redirected && new URL(answer.url).pathname === "/dashboard/login") return location.reload();
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of all("[data-live][id]")) {
      const fresh = page.getElementById(part.id);
      if (fresh && !isInUse(part) && comparable(fresh) !== comparable(part)) replace(part, document.adoptNode(fresh));
    }
  } catch {
    // The next news, or the next look, tries again.
  } finally {
    isFetching = false;
  }
}

// Times differ from second to second, and are kept true without the server.
function comparable(part) {
  const copy = part.cloneNode(true);
  for (const time of all("time", copy)) { time.textContent = ""; time.removeAttribute("title"); }
  for (const button of all("[data-copy]", copy)) { button.hidden = true; button.textContent = "Copy"; }
  for (const row of all("tr", copy)) row.removeAttribute("class");
  for (const input of all("input[type=hidden]", copy)) input.removeAttribute("value");
  for (const details of all("details", copy)) details.removeAttribute("open");
  for (const pick of all("#pick-all", copy)) pick.hidden = true;
  return copy.innerHTML;
}

function soon() {
  if (waiting !== null || !isLive) return;
  waiting = setTimeout(refresh, Math.max(50, lastFetch + REFRESH_MS - Date.now()));
}

function listen() {
  const source = new EventSource("/dashboard/events");
  source.onopen = () => { if (isLive) say("live", "Live"); };
  source.onerror = () => { if (isLive) say("lost", source.readyState === EventSource.CLOSED ? "Stopped" : "Reconnecting"); };
  for (const name of NEWS) source.addEventListener(name, event => { soon(); tell(name, event.data); });
  addEventListener("pagehide", () => source.close(), { once: true });
}

// The log of a job is no news: its own stream says when there are lines that the page does not have.
function followLog() {
  const section = document.querySelector("[data-follow]");
  if (!section) return;
  const source = new EventSource(section.dataset.follow);
  source.addEventListener("log", soon);
  source.addEventListener("end", () => source.close());
  addEventListener("pagehide", () => source.close(), { once: true });
}

// What has just happened, as far as one can follow it: four lines a second at most.
const feed = byId("feed");
let tellingSince = 0, nTold = 0;

function tell(name, data) {
  if (!feed || !isLive || !name.startsWith("job-")) return;
  if (Date.now() - tellingSince > 1000) { tellingSince = Date.now(); nTold = 0; }
  if (++nTold > 4) return;
  let event;
  try { event = JSON.parse(data); } catch { return; }
  const id = event.job_id ?? event.jobId;
  if (!id) return;
  const line = document.createElement("li"), what = document.createElement("span"), link = document.createElement("a"), time = document.createElement("time");
  what.textContent = name.slice(4).replaceAll("-", " ");
  link.href = `/dashboard/jobs/${encodeURIComponent(id)}`;
  link.className = "id";
  link.textContent = id.slice(id.lastIndexOf("-") + 1);
  time.dateTime = new Date().toISOString();
  line.append(what, link, time);
  const list = feed.querySelector("ol");
  list.prepend(line);
  while (list.children.length > 8) list.lastElementChild.remove();
  showTimes(line);
  feed.hidden = false;
}

function toggle() {
  isLive = !isLive;
  live.setAttribute("aria-pressed", String(isLive));
  say(isLive ? "live" : "off", isLive ? "Live" : "Paused");
  if (isLive) refresh();
}

if (isLive) {
  live.hidden = false;
  say("lost", "Connecting");
  live.addEventListener("click", toggle);
  listen();
  followLog();
  setInterval(() => { if (Date.now() - lastFetch >= LOOK_MS) refresh(); }, 1000);
  document.addEventListener("visibilitychange", soon);
}

// Rows and selection

const rowKey = row => row.dataset.jobId ?? row.dataset.group ?? row.dataset.queue ?? row.dataset.row ?? "";

function prepare(root = document) {
  const pickAll = root.querySelector("#pick-all");
  if (!pickAll) return;
  pickAll.hidden = false;
  pickAll.addEventListener("change", () => {
    for (const box of all("input[name=job]")) box.checked = pickAll.checked;
    showPicked();
  });
}

function showPicked() {
  const picked = byId("picked");
  if (!picked) return;
  const n = all("input[name=job]:checked").length;
  picked.textContent = n === 0 ? "Selected jobs:" : `${n} selected:`;
}

document.addEventListener("change", event => { if (event.target.matches?.("input[name=job]")) showPicked(); });

// Filters by state act at once.
for (const box of all(".chips input")) box.addEventListener("change", () => box.form.requestSubmit());
// An empty field is no filter, and needs no place in the address.
for (const form of all("form.filters")) form.addEventListener("formdata", event => {
  const states = event.formData.getAll("state");
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  if (states.length > 1) event.formData.set("state", states.join(","));
});

// Keys

const help = byId("help");
const PLACES = { o: "/dashboard", j: "/dashboard/jobs", f: "/dashboard/failures", q: "/dashboard/queues", w: "/dashboard/workers" };
let isGoing = false;

function move(step) {
  const rows = all("tr[data-job-id], tr[data-group], tr[data-queue], tr[data-row]").filter(row => row.querySelector("a"));
  if (rows.length === 0) return;
  const at = rows.findIndex(row => row.classList.contains("here"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
  rows[at]?.classList.remove("here");
  next.classList.add("here");
  next.querySelector("a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", event => {
  const isTyping = event.target.matches?.("input:not([type=checkbox]), textarea, select");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || help?.open) return;
  if (isGoing) {
    isGoing = false;
    if (PLACES[event.key]) { event.preventDefault(); location.assign(PLACES[event.key]); }
    return;
  }
  const act = {
    "/": () => { const search = byId("q"); if (search) { search.focus(); search.select(); } else location.assign("/dashboard/jobs#q"); },
    "j": () => move(1),
    "k": () => move(-1),
    "x": () => document.querySelector("tr.here input[name=job]")?.click(),
    "g": () => { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); },
    "p": () => { if (live && !live.hidden) toggle(); },
    "?": () => help?.showModal(),
  }[event.key];
  if (act) { event.preventDefault(); act(); }
});

const keys = byId("keys");
if (keys && help) { keys.hidden = false; keys.addEventListener("click", () => help.showModal()); }
if (location.hash === "#q") byId("q")?.focus();

prepare();
showTimes();
showCopying();
setInterval(showTimes, 1000);
document.documentElement.dataset.ready = "";
