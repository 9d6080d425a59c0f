// Asking the REST server. All paths are relative to the page, so that it works below any path of a proxy.
import { useEffect, useState } from "./html.js";

const SHORTEST_MS = 1000;
let refreshMs = 3000;
const TOKEN_COOKIE = "ray-authentication-token";

// -- whether the server answers at all ---------------------------------------------------------------------------

let connection = { isAway: false, needsToken: false, reason: "" };
const listeners = new Set();

function connectionIs(next) {
  if (Object.keys(next).some((key) => next[key] !== connection[key])) {
    connection = { ...connection, ...next };
    listeners.forEach((listener) => listener(connection));
  }
}

export function useConnection() {
  const [shown, setShown] = useState(connection);
  useEffect(() => {
    listeners.add(setShown);
    setShown(connection);
    return () => listeners.delete(setShown);
  }, []);
  return shown;
}

/** How often all is asked for again, as the server says. */
export function refreshEvery(ms) {
  refreshMs = Math.max(SHORTEST_MS, ms);
}

/** Keeps the token for this page and what is below it, until the browser is closed. */
export function keepToken(token) {
  const path = location.pathname.replace(/[^/]*$/, "");
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${TOKEN_COOKIE}=${token}; path=${path}; SameSite=Strict${secure}`;
}

// -- requests ----------------------------------------------------------------------------------------------------

export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

/** The answer's JSON, or its text. Throws Refused, or what fetch throws where nobody answers. */
export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name !== "AbortError") connectionIs({ isAway: true });
    throw error;
  }
  const isJson = (response.headers.get("content-type") || "").startsWith("application/json");
  if (response.ok) {
    connectionIs({ isAway: false, needsToken: false, reason: "" });
    return isJson ? response.json() : response.text();
  }
  const reason = (isJson && (await response.json()).errors?.join("; ")) || `${response.status} ${response.statusText}`;
  const isGateway = !isJson && response.status >= 502; // a proxy that finds no server behind it
  const needsToken = response.status === 401 || (response.status === 403 && reason.includes("token"));
  connectionIs({ isAway: isGateway, needsToken, reason: needsToken ? reason : "" });
  throw new Refused(response.status, reason);
}

/**
 * Asks for all paths again and again, and keeps what was known of each while nobody answers.
 * every: in how many refresh intervals once; 0: only once.
 */
export function useAnswers(paths, every = 1) {
  const [known, setKnown] = useState({});
  const wanted = paths.join("\n");
  useEffect(() => {
    const controller = new AbortController();
    let timer;
    const poll = async (isFirst) => {
      if (isFirst || !document.hidden) {
        const found = await Promise.allSettled(paths.map((path) => ask(path, { signal: controller.signal })));
        if (controller.signal.aborted) return;
        setKnown((before) =>
          Object.fromEntries(
            found.map(({ value, reason }, index) => {
              const path = paths[index];
              const answer = reason ? { ...before[path], error: reason } : { value, time: Date.now() };
              return [path, answer];
            }),
          ),
        );
      }
      if (every) timer = setTimeout(poll, every * refreshMs);
    };
    poll(true);
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [wanted, every]);
  return known;
}

/** {value, error, time}: the last answer, and why there is no newer one. */
export function useAnswer(path, every = 1) {
  return useAnswers(path ? [path] : [], every)[path] || {};
}

// -- what changes something --------------------------------------------------------------------------------------

const write = (method, path, body) =>
  ask(path, {
    method,
    headers: { "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });

export const cancel = (job) => write("PATCH", `jobs/${job}`);

const LOST_AFTER_MS = 30_000;

/** Begins a savepoint, and waits for its end: gives its location. Throws with the reason where there is none. */
export async function savepoint(job, kind, body) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const triggerId = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  await write("POST", `jobs/${job}/${kind}`, { ...body, triggerId });
  return (await ended(`jobs/${job}/savepoints/${triggerId}`, "the savepoint")).location;
}

/** Gives a job another parallelism, and waits until it has. Throws with the reason where it goes on as it was. */
export async function rescale(job, parallelism) {
  const { "request-id": triggerId } = await write("PATCH", `jobs/${job}/rescaling?parallelism=${parallelism}`);
  await ended(`jobs/${job}/rescaling/${triggerId}`, "its new parallelism");
}

/** Waits for the end of what was begun: gives what came of it. Throws with the reason where it failed. */
async function ended(path, what) {
  let heard = Date.now();
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    let progress;
    try {
      progress = await ask(path);
    } catch (error) {
      if (error instanceof Refused && error.status < 500) throw error;
      if (Date.now() - heard < LOST_AFTER_MS) continue; // the master may be away for a while
      throw new Error(
        `Nobody answers any more: a server may end with its job, whose log says what became of ${what}`,
      );
    }
    heard = Date.now();
    if (progress.status.id !== "COMPLETED") continue;
    const failure = progress.operation?.["failure-cause"];
    if (failure) throw new Error(failure["stack-trace"] || failure.class);
    return progress.operation;
  }
}
