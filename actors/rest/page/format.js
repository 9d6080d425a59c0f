// Numbers, times and names as they are shown.

export const NOTHING = "–";

const PREFIXES = ["", "k", "M", "G", "T", "P"];

function scaled(value, step, unit) {
  let power = 0;
  while (Math.abs(value) >= step && power < PREFIXES.length - 1) {
    value /= step;
    power += 1;
  }
  const digits = power === 0 && Number.isInteger(value) ? 0 : Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  return `${value.toFixed(digits)}${PREFIXES[power] || unit ? " " : ""}${PREFIXES[power]}${unit}`.trim();
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export const count = (value) => (isNumber(value) && value >= 0 ? scaled(value, 1000, "") : NOTHING);
export const bytes = (value) => (isNumber(value) && value >= 0 ? scaled(value, 1024, "B") : NOTHING);
export const perSecond = (value) => (isNumber(value) ? `${count(value)}/s` : NOTHING);
export const percent = (share) => (isNumber(share) ? `${Math.round(share * 100)} %` : NOTHING);

export function duration(ms) {
  if (!isNumber(ms) || ms < 0) return NOTHING;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const [d, h, m, s] = [seconds / 86_400, (seconds / 3600) % 24, (seconds / 60) % 60, seconds % 60].map(Math.floor);
  if (d) return `${d} d ${h} h`;
  return h ? `${h} h ${m} min` : `${m} min ${s} s`;
}

const two = (number) => String(number).padStart(2, "0");

/** In the browser's time zone; the date is left out where it is today's. */
export function time(ms, withMillis = false) {
  if (!isNumber(ms) || ms <= 0) return NOTHING;
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms); // event time may be anything
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const precise = withMillis ? `${clock}.${String(at.getMilliseconds()).padStart(3, "0")}` : clock;
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? precise : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${precise}`;
}

const ENTITIES = { lt: "<", gt: ">", quot: '"', "#x27": "'", "#39": "'", amp: "&" };

/** The operators of a vertex, from its description in the plan, which has a line of HTML for each. */
export function operatorsOf(description) {
  return (description || "")
    .split("<br/>")
    .filter((line) => line.trim())
    .map((line) => {
      const [, indent, name] = /^([\s:|]*)(?:\+- |:- )?(.*)$/.exec(line);
      return { depth: indent.length / 3 + (line.includes("+- ") ? 1 : 0), name: unescaped(name) };
    });
}

const unescaped = (text) => text.replace(/&(lt|gt|quot|#x27|#39|amp);/g, (_, name) => ENTITIES[name]);
