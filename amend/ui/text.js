// Words for what the daemon tells. Nothing here touches the page.

const JOINERS = "\u200c\u200d";

/** One line without control, bidirectional and invisible characters, as the command line shows it. */
export function clean(text) {
  return String(text)
    .replace(/[\t\n\r\v\f\u2028\u2029\x85]/g, " ")
    .replace(/[\p{Cc}\p{Cf}]/gu, (each) => (JOINERS.includes(each) ? each : ""))
    .replace(/\p{Cs}/gu, "\ufffd");
}

/** A part of a query or a path, all of it letters, digits and "%". A byte that is no UTF-8 is a lone
    surrogate here, and that byte again there. */
export function quoted(text) {
  let said = "";
  for (const each of text) {
    const code = each.codePointAt(0);
    if (code >= 0xdc80 && code <= 0xdcff) said += "%" + (code - 0xdc00).toString(16).toUpperCase();
    else if (code >= 0xd800 && code <= 0xdfff) said += "%EF%BF%BD";
    else said += encodeURIComponent(each).replace(/[!'()*]/g, (c) => "%" + c.charCodeAt(0).toString(16));
  }
  return said;
}

/** A cause as a sentence. */
export function sentence(cause) {
  const said = happened(cause);
  return clean(cause.source ? `${cause.source}: ${said}` : said);
}

function happened(cause) {
  const because = cause.detail ? `: ${cause.detail}` : "";
  switch (cause.cause) {
    case "edited":
      return cause.settled === false ? "changed since" : "edited, not committed";
    case "committed":
      return `committed${inCommit(cause) || " since"}`;
    case "deleted":
      return cause.detail ? `${cause.detail}, and does not now` : `deleted${inCommit(cause)}`;
    case "moved":
      return `moved to ${cause.moved_to ?? "another path"}${inCommit(cause)}`;
    case "appeared": {
      const gained = cause.gained?.length ? [`gained ${cause.gained.join(", ")}`] : [];
      const lost = cause.lost?.length ? [`lost ${cause.lost.join(", ")}`] : [];
      if (gained.length || lost.length) return [...gained, ...lost].join("; ");
      return cause.source?.startsWith("!")
        ? "exists now; this rests on its absence"
        : "is something else now";
    }
    case "evidence":
      return `the cited lines changed${because}`;
    case "expired":
      return `it is too old${because}${cause.verified ? "; its files are as they were" : ""}`;
    case "invalid":
      return `breaks the format${cause.pointer ? ` at ${cause.pointer}` : ""}${because}`;
    case "unreadable":
      return `cannot be read${because}`;
    case "too_large":
      return `is too large to check${because}`;
    case "no_baseline":
      return `nothing tells what it was${because}`;
    case "shallow":
      return `the commit is not in this clone${because}`;
    default:
      return cause.cause + because;
  }
}

function inCommit(cause) {
  if (!cause.commit) return "";
  const { oid, subject, author_time: at } = cause.commit;
  return ` in ${oid.slice(0, 7)} “${subject}” on ${at.slice(0, 10)}`;
}

/** Why a change came about, in words. */
export function why(change) {
  const said = change.causes.map(sentence).join("; ");
  if (said) return said;
  if (change.previous === "missing") return "new";
  if (change.verdict === "missing") return "nobody has it any more";
  return change.verdict === "fresh" ? "all it rests on is as it was" : "";
}

export function plural(count, noun) {
  if (count === 1) return `1 ${noun}`;
  return `${number(count)} ${noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;
}

export const number = (value) => value.toLocaleString("en");

/** The last two parts of a path, which say more than the first. */
export const shortPath = (path) => clean(path).split("/").filter(Boolean).slice(-2).join("/");

export function duration(seconds) {
  for (const [unit, length] of [["days", 86400], ["hours", 3600], ["minutes", 60]]) {
    if (seconds >= 2 * length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return plural(Math.floor(seconds), "second");
}

export function time(at, now = new Date()) {
  const then = new Date(at);
  const isToday = then.toDateString() === now.toDateString();
  const clock = { hour: "2-digit", minute: "2-digit", hour12: false };
  return isToday
    ? then.toLocaleTimeString("en-GB", { ...clock, second: "2-digit" })
    : then.toLocaleString("en-GB", { day: "numeric", month: "short", ...clock });
}

/** A time on an axis that begins at `first`: a day where it is long, else an hour. */
export function tick(at, first) {
  const isLong = Date.now() - new Date(first) > 2 * 86400_000;
  return new Date(at).toLocaleString("en-GB", isLong
    ? { day: "numeric", month: "short" }
    : { hour: "2-digit", minute: "2-digit", hour12: false });
}

export const milliseconds = (seconds) =>
  seconds === null ? "beyond the scale" : `within ${seconds * 1000} ms`;
