// The frame: which view an address after the # names, whether the server answers, and the token it may ask for.
import { html, render, useEffect, useState } from "./html.js";
import { keepToken, refreshEvery, useAnswer, useConnection } from "./server.js";
import { JobsView } from "./jobs.js";
import { JobView } from "./job.js";
import { MastersView, TaskExecutorView, TaskExecutorsView } from "./cluster.js";

/** `#/jobs/<id>/graph` as ["jobs", "<id>", "graph"]. */
function placeNow() {
  return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
}

function usePlace() {
  const [place, setPlace] = useState(placeNow());
  useEffect(() => {
    const move = () => setPlace(placeNow());
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  return place;
}

function View({ place }) {
  const [kind, id, ...rest] = place;
  if (kind === "jobs" && id) return html`<${JobView} key=${id} id=${id} place=${rest} />`;
  if (kind === "taskexecutors" && id) return html`<${TaskExecutorView} key=${id} id=${id} tab=${rest[0]} />`;
  if (kind === "taskexecutors") return html`<${TaskExecutorsView} />`;
  if (kind === "masters") return html`<${MastersView} tab=${id} />`;
  return html`<${JobsView} />`;
}

function TokenForm({ reason }) {
  const keep = (event) => {
    event.preventDefault();
    keepToken(new FormData(event.target).get("token").trim());
    location.reload();
  };
  return html`<form class="card token" onSubmit=${keep}>
    <h1>This server asks for a token</h1>
    <p>It is the one of Ray: <code>ray get-auth-token</code> prints it on the cluster.</p>
    <p class="trouble" role="alert">${reason}</p>
    <label>Token <input name="token" type="password" required autocomplete="off" pattern="\\s*[!-+\\--:<-~]+\\s*" /></label>
    <button class="main">Show the page</button>
    <p class="quiet">It is kept in a cookie for this page, until the browser is closed.</p>
  </form>`;
}

const LINKS = [
  ["jobs", "Jobs", "#/"],
  ["taskexecutors", "TaskExecutors", "#/taskexecutors"],
  ["masters", "Masters", "#/masters"],
];

function App() {
  const place = usePlace();
  const connection = useConnection();
  const config = useAnswer("config").value;
  if (config) refreshEvery(config["refresh-interval"]);
  const current = place[0] || "jobs";
  useEffect(() => {
    document.title = ["flinkray", ...place.slice(0, 1)].join(" · ");
  }, [place]);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header>
      <a class="brand" href="#/">flinkray <small>${config?.["flink-version"]}</small></a>
      <nav aria-label="Main">
        ${LINKS.filter(([name]) => name === "jobs" || !config?.features["web-history"]).map(
          ([name, title, href]) =>
            html`<a href=${href} key=${name} aria-current=${name === current ? "page" : null}>${title}</a>`,
        )}
      </nav>
    </header>
    ${
      connection.isAway &&
      html`<p class="away" role="alert">
      The server does not answer; it may have ended with its job. Shown is what was known, and it is asked again.
    </p>`
    }
    <main id="main" tabindex="-1">
      ${connection.needsToken ? html`<${TokenForm} reason=${connection.reason} />` : html`<${View} place=${place} />`}
    </main>
  `;
}

// The # names the view, so that this link moves the focus by itself.
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

render(html`<${App} />`, document.body);
