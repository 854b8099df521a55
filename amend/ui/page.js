// The page's state, and how it stays true: asked once, then kept by the stream of changes.

import { barPlot, totalPlot } from "./plots.js";
import { changeItem, element, entryRow, memoryTree } from "./show.js";
import { clean, duration, milliseconds, number, plural, quoted, sentence, shortPath, time, why } from "./text.js";

const ROWS_AT_ONCE = 200;
const CHANGES_SHOWN = 60;

// More changes at once than this are one question for everything instead.
const ASKED_ONE_BY_ONE = 20;

// Changes come in bursts; the daemon stores them 0.2 s later, and only then are they in the plots.
const GATHER_MS = 120;
const PAST_MS = 500;

// A daemon that is restarted is back in a second.
const RETRY_MS = 1000;

// What no event tells of: hooks, and times that grow older.
const AGAIN_MS = 15000;

// Whoever has no repository yet is just adding one.
const NOTHING_YET_MS = 2000;

const $ = (id) => document.getElementById(id);
const idOf = (entry) => `${entry.kind} ${entry.key}`;

const state = {
  repos: [], repo: null, entries: new Map(), open: new Set(), activity: null, problems: [],
  query: "", verdict: "", kind: "", room: ROWS_AT_ONCE, fresh: new Set(), span: 86400,
  status: null, memory: [], isThere: null,
};

class Trouble extends Error {
  constructor(problem, status) {
    super(problem.detail);
    this.hint = problem.hint;
    this.status = status;
  }
}

async function ask(path, query = {}) {
  const asked = Object.entries(query).map(([name, value]) => `${name}=${quoted(value)}`).join("&");
  const answer = await fetch(asked ? `${path}?${asked}` : path);
  const document = await answer.json().catch(() => ({}));
  if (answer.ok) return document;
  throw new Trouble({ detail: `${path}: ${answer.status}`, ...document }, answer.status);
}

// -- the whole ------------------------------------------------------------------------------------

async function everything() {
  await status();
  await chosen();
}

/** All that belongs to the repository. Notes are entries, so trees come after them. */
const chosen = () => Promise.all([entries().then(memory), past()]);

async function status() {
  state.status = await ask("v1/status");
  state.repos = state.status.repos;
  const wanted = decodeURIComponent(location.hash.slice(1));
  state.repo = state.repos.find((repo) => repo.id === (state.repo?.id ?? wanted))
    ?? state.repos.find((repo) => repo.id === wanted) ?? state.repos[0] ?? null;
  showStatus();
}

async function entries() {
  const repo = state.repo;
  const answer = repo ? await ask("v1/entries", { cwd: repo.root }) : { entries: [], problems: [] };
  if (repo?.id !== state.repo?.id) return; // another one was chosen meanwhile
  state.entries = new Map(answer.entries.map((entry) => [idOf(entry), entry]));
  state.problems = answer.problems;
  showEntries();
}

async function past() {
  const repo = state.repo;
  const since = new Date(Date.now() - state.span * 1000).toISOString();
  const answer = await ask("v1/activity", repo ? { cwd: repo.root, since } : { since });
  if (repo?.id !== state.repo?.id) return;
  state.activity = answer;
  showPast();
}

async function memory() {
  const repo = state.repo;
  state.memory = [];
  $("note").hidden = true;
  if (repo) {
    try {
      const answer = await ask("v1/memory", { cwd: repo.root });
      if (repo.id !== state.repo?.id) return;
      state.memory = answer.files.filter((file) => file.kind === "index");
      const about = answer.tokens_are_estimated ? "about " : "";
      $("tokens").textContent = `its indexes are ${about}${plural(answer.tokens, "token")}`;
    } catch (error) {
      if (!(error instanceof Trouble) || error.status !== 404) throw error;
    }
  }
  showMemory();
}

// -- showing --------------------------------------------------------------------------------------

function showStatus() {
  const { status: told, repo } = state;
  const select = $("repo");
  const known = [...select.options].map((option) => option.value).join();
  if (known !== state.repos.map(({ id }) => id).join()) {
    select.replaceChildren(...state.repos.map(({ id, root }) =>
      element("option", { value: id, title: clean(root) }, shortPath(root))));
  }
  select.hidden = state.repos.length === 0;
  if (repo) select.value = repo.id;
  const place = repo && (repo.branch ?? repo.head?.slice(0, 7) ?? "no git");
  $("where").textContent = !repo ? "" :
    `on ${clean(place)}${repo.operation ? `, in the middle of a ${clean(repo.operation)}` : ""}`;
  const facts = [
    ["version", clean(told.version)],
    ["running for", duration(told.uptime_s)],
    ["memory", `${number(Math.round(told.rss_bytes / 2 ** 20))} MiB`],
    ["tends", plural(state.repos.length, "repository")],
  ];
  if (repo) {
    const { backend, armed, unwatched } = repo.watch;
    const without = unwatched.length ? `, ${plural(unwatched.length, "path")} not watched` : "";
    facts.push(["watches", `${clean(backend)}, ${plural(armed, "directory")}${without}`]);
    facts.push(["cache file", `${clean(repo.cache_file)} (${clean(repo.writes)})`]);
    for (const sibling of repo.siblings) {
      facts.push([`sibling ${clean(sibling.name)}`, clean(sibling.problem ?? sibling.root)]);
    }
  }
  if (told.config_error) facts.push(["configuration", clean(told.config_error)]);
  const latency = state.activity?.hook_latency;
  if (latency?.count) {
    facts.push(["hooks", `half ${milliseconds(latency.p50_s)}, 99 % ${milliseconds(latency.p99_s)}`]);
  }
  $("daemon").replaceChildren(...facts.flatMap(([name, said]) =>
    [element("dt", {}, name), element("dd", {}, said)]));
}

function matches(entry) {
  if (state.verdict && entry.verdict !== state.verdict) return false;
  if (state.kind && entry.kind !== state.kind) return false;
  if (!state.query) return true;
  const text = [entry.key, entry.summary, ...entry.files, ...entry.causes.map(sentence)].join("\n").toLowerCase();
  return state.query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

const ORDER = { stale: 0, unknown: 1, missing: 1, fresh: 2 };

function showEntries() {
  const all = [...state.entries.values()];
  const found = all.filter(matches).sort((a, b) =>
    ORDER[a.verdict] - ORDER[b.verdict] || a.kind.localeCompare(b.kind) || a.key.localeCompare(b.key));
  for (const count of document.querySelectorAll("[data-count]")) {
    const verdict = count.dataset.count;
    count.textContent = number(verdict ? all.filter((e) => e.verdict === verdict).length : all.length);
  }
  const focused = document.activeElement?.closest?.("tr")?.dataset.id;
  const rows = found.slice(0, state.room).map((entry) => {
    const id = idOf(entry);
    const row = entryRow(entry, state.open.has(id), () => toggle(id));
    row.dataset.id = id;
    if (state.fresh.has(id)) row.classList.add("new");
    return row;
  });
  $("rows").replaceChildren(...rows);
  if (focused !== undefined) {
    rows.find((row) => row.dataset.id === focused)?.querySelector("button").focus({ preventScroll: true });
  }
  $("count").textContent = found.length === all.length ? "" : `${number(found.length)} of ${number(all.length)} shown`;
  const left = found.length - rows.length;
  $("more").hidden = left <= 0;
  $("more").textContent = `Show ${number(Math.min(left, ROWS_AT_ONCE))} more of ${number(left)}`;
  $("table").hidden = found.length === 0;
  $("empty").hidden = found.length > 0;
  if (!state.repo) hint("No repository yet.", "amend add PATH", " tends one.");
  else if (!all.length) hint("No entries here yet.", "amend put KEY --summary TEXT FILES", " stores one; so do agents.");
  else hint("Nothing matches.", "Esc", " clears the search.");
  $("problems").replaceChildren(...state.problems.map((problem) =>
    element("p", { class: "problem" }, clean(problem))));
}

function hint(before, code, after) {
  $("empty").replaceChildren(`${before} `, element("code", {}, code), after);
}

function toggle(id) {
  if (!state.open.delete(id)) state.open.add(id);
  showEntries();
}

function showPast() {
  const { points, changes, hooks } = state.activity;
  const total = (of) => points.reduce((all, point) => all + of(point), 0);
  const series = {
    marks: { name: "marked stale", of: (p) => p.marks, look: "stale" },
    restores: { name: "restored", of: (p) => p.restores, look: "fresh", isBelow: true },
    hits: { name: "hits", of: (p) => p.hits, look: "hit" },
    starts: { name: "head starts", of: (p) => p.head_starts, look: "start" },
    misses: { name: "misses", of: (p) => p.misses, look: "miss" },
    tokens: { name: "tokens saved", of: (p) => p.tokens, look: "hit" },
  };
  const { marks, restores, hits, starts, misses, tokens } = series;
  const open = [...$("plots").querySelectorAll("details")].map((each) => each.open);
  $("plots").replaceChildren(
    barPlot("Marks and restores",
      `${plural(total(marks.of), "entry")} marked stale, ${number(total(restores.of))} restored`,
      points, [marks, restores]),
    barPlot("Questions that memory answered",
      `${plural(total(hits.of), "hit")}, ${plural(total(starts.of), "head start")}, ${number(total(misses.of))} missed`,
      points, [hits, starts, misses]),
    totalPlot("Tokens saved", `${number(total(tokens.of))} in all, as far as is known`, points, tokens));
  $("plots").querySelectorAll("details").forEach((each, n) => { each.open = open[n] ?? false; });
  showChanges(changes);
  const heard = hooks.filter((hook) => hook.told + hook.silent + hook.late + hook.bugs);
  $("hooks").hidden = heard.length === 0;
  $("hooks").tBodies[0].replaceChildren(...heard.map((hook) => element("tr", {},
    element("th", { scope: "row" }, clean(hook.agent)),
    ...["told", "silent", "late", "bugs"].map((name) => element("td", {}, number(hook[name]))))));
  showStatus();
}

function showChanges(changes, isNew = () => false) {
  $("changes").replaceChildren(...changes.slice(0, CHANGES_SHOWN).map((change) =>
    changeItem(change, isNew(change))));
  $("no-changes").hidden = changes.length > 0;
}

function showMemory() {
  const notes = new Map([...state.entries.values()].filter(({ kind }) => kind === "note")
    .map((entry) => [entry.key, entry.verdict]));
  const judged = (path) => {
    const parts = path.replace(/\.aicontext$/, "").split("/");
    // A tree may lie at any depth, and a note's key is its path below the tree.
    return parts.map((_, n) => notes.get(parts.slice(n).join("/"))).find(Boolean);
  };
  if (!state.memory.length) {
    $("tokens").textContent = "";
    $("memory").replaceChildren(element("p", { class: "empty" }, "No memory tree here. ",
      element("code", {}, "amend memory save"), " makes one."));
    return;
  }
  const open = [...$("memory").querySelectorAll("details")].map((each) => each.open);
  $("memory").replaceChildren(memoryTree(state.memory, showNote, judged));
  $("memory").querySelectorAll("details").forEach((each, n) => { each.open = open[n] ?? each.open; });
}

async function showNote(path) {
  const answer = await ask("v1/memory", { cwd: state.repo.root, path }).catch((error) => ({ error }));
  const file = answer.files?.[0];
  const against = (file?.causes ?? []).map((cause) => element("li", {}, sentence(cause)));
  const text = file ? file.text.split("\n").map(clean).join("\n") : clean(answer.error.message);
  $("note").replaceChildren(
    element("h3", {}, clean(path)),
    ...(against.length ? [element("ul", { class: "causes" }, ...against)] : []),
    element("pre", { tabindex: "0" }, text));
  $("note").hidden = false;
  $("note").scrollIntoView({ block: "nearest" });
}

// -- living ---------------------------------------------------------------------------------------

let gathered = [];
let gathering = null;
let pastDue = null;

function heard(change) {
  gathered.push(change);
  gathering ??= setTimeout(taken, GATHER_MS);
}

async function taken() {
  const changes = gathered;
  [gathered, gathering] = [[], null];
  const here = changes.filter((change) => change.repo === state.repo?.id);
  announce(here);
  showHere(here);
  pastDue ??= setTimeout(() => { pastDue = null; quietly(past()); }, PAST_MS);
  await quietly(Promise.all([status(), refreshed(here)]));
}

/** The list of changes as it is now, before the daemon has been asked for all of it. */
function showHere(here) {
  if (!here.length || !state.activity) return;
  for (const change of here) {
    const before = state.activity.changes.find((each) => idOf(each) === idOf(change));
    if (change.refined && before) before.causes = change.causes;
    else if (!change.refined) state.activity.changes.unshift(change);
  }
  const clocks = new Set(here.map(({ clock }) => clock));
  showChanges(state.activity.changes, ({ clock }) => clocks.has(clock));
}

async function refreshed(here) {
  const names = new Map(here.map((change) => [idOf(change), change]));
  if (!names.size) return;
  if (names.size > ASKED_ONE_BY_ONE) {
    await entries();
  } else {
    await Promise.all([...names.values()].map(one));
  }
  state.fresh = new Set(names.keys());
  showEntries();
  state.fresh.clear();
  if (here.some(({ kind }) => kind === "note")) await memory();
}

async function one({ kind, key }) {
  const repo = state.repo;
  const path = `v1/entries/${kind}/${quoted(key)}`;
  try {
    const entry = await ask(path, { cwd: repo.root });
    if (repo.id === state.repo?.id) state.entries.set(idOf(entry), entry);
  } catch (error) {
    if (error.status !== 404) throw error;
    state.entries.delete(`${kind} ${key}`);
  }
}

function announce(here) {
  const last = new Map(here.map((change) => [idOf(change), change]));
  const change = [...last.values()].at(-1);
  if (!change) return;
  const verdict = change.verdict === "missing" ? "gone" : change.verdict;
  $("said").textContent = last.size === 1
    ? `${change.kind} ${clean(change.key)} is ${verdict}: ${why(change)}`
    : `${last.size} entries changed; the last is ${clean(change.key)}, which is ${verdict}`;
}

async function again() {
  const before = state.repo?.id;
  const work = async () => {
    await status();
    await (state.repo?.id === before ? past() : chosen());
  };
  if (state.isThere) await quietly(work());
  setTimeout(again, state.repo ? AGAIN_MS : NOTHING_YET_MS);
}

/** What fails here is told by the stream as well. */
const quietly = (work) => work.catch((error) => { if (!(error instanceof Trouble) && !(error instanceof TypeError)) throw error; });

function connect() {
  const stream = new EventSource("v1/events");
  stream.addEventListener("open", () => {
    everything().then(() => alive(), (error) => lost(stream, error.status === 503 ? error : null));
  });
  stream.addEventListener("verdict", (event) => heard(JSON.parse(event.data)));
  stream.addEventListener("error", () => lost(stream));
}

function alive() {
  if (state.isThere === false) {
    $("said").textContent = "The daemon is back.";
  }
  state.isThere = true;
  document.body.classList.remove("old");
  $("banner").hidden = true;
  $("link").dataset.state = "live";
  $("link-text").textContent = "live";
}

/** Why is asked, said, and asked again until the answer is another. */
async function lost(stream, error = null) {
  stream.close();
  const reason = error ?? await ask("v1/hello").then(() => null, (found) => found);
  if (reason === null) {
    setTimeout(connect, RETRY_MS);
    return;
  }
  if (state.isThere !== false) tellLost(reason);
  state.isThere = false;
  setTimeout(retry, RETRY_MS);
}

async function retry() {
  try {
    await ask("v1/hello");
  } catch (error) {
    tellLost(error);
    setTimeout(retry, RETRY_MS);
    return;
  }
  connect();
}

function tellLost(error) {
  const isDaemon = error instanceof Trouble;
  const since = state.status ? ` What you see is as of ${$("banner").dataset.at || stamped()}.` : "";
  const said = isDaemon
    ? [`No daemon answers.${since} Start it with `, element("code", {}, "amend run"), "; this page goes on by itself."]
    : [`The page’s own command has ended.${since} Run `, element("code", {}, "amend ui"), " again for a new link."];
  if ($("banner").hidden || $("banner").dataset.why !== String(isDaemon)) $("banner").replaceChildren(...said);
  $("banner").dataset.why = String(isDaemon);
  $("banner").hidden = false;
  document.body.classList.add("old");
  $("link").dataset.state = "lost";
  $("link-text").textContent = isDaemon ? "no daemon" : "ended";
  if (!state.status && !$("rows").childElementCount) {
    $("table").hidden = true;
    $("empty").hidden = false;
    hint("Nothing to show without a daemon.", "amend run", " starts it.");
  }
}

function stamped() {
  $("banner").dataset.at = time(new Date().toISOString());
  return $("banner").dataset.at;
}

// -- what a person does ---------------------------------------------------------------------------

function filtered() {
  state.query = $("search").value.trim();
  state.kind = $("kind").value;
  state.verdict = document.querySelector("[name=verdict]:checked").value;
  state.room = ROWS_AT_ONCE;
  showEntries();
}

document.querySelector(".filters").addEventListener("input", filtered);
document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
$("more").addEventListener("click", () => { state.room += ROWS_AT_ONCE; showEntries(); });
$("span").addEventListener("change", () => { state.span = Number($("span").value); quietly(past()); });
$("repo").addEventListener("change", () => {
  state.repo = state.repos.find((repo) => repo.id === $("repo").value);
  history.replaceState(null, "", `#${encodeURIComponent(state.repo.id)}`);
  state.open.clear();
  quietly(chosen());
  showStatus();
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input[type=search], textarea, select");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape" && ($("search").value || state.verdict || state.kind)) {
    document.querySelector(".filters").reset();
    filtered();
  }
});
matchMedia("(max-width: 1099px)").addEventListener("change", () => { if (state.activity) showPast(); });
setTimeout(again, NOTHING_YET_MS);

connect();
