// What failed, with the traceback of the program.
import { html } from "./html.js";
import { time } from "./format.js";
import { Trouble } from "./parts.js";
import { useAnswer } from "./server.js";

const MATTERS = {
  user: "the program or its data",
  resources: "slots or nodes that are missing",
  system: "storage, the network or flinkray",
};

export function ExceptionsView({ job }) {
  const answer = useAnswer(`jobs/${job.jid}/exceptions`);
  const history = answer.value?.exceptionHistory;
  return html`<section class="card" aria-label="Exceptions">
    <${Trouble} of=${answer} />
    ${history && html`<${FailureList} entries=${history.entries} empty="Nothing has failed." />`}
    ${history?.truncated && html`<p class="quiet">Earlier ones are not shown.</p>`}
  </section>`;
}

export function FailureList({ entries, empty, isClosed }) {
  if (!entries.length) return html`<p class="empty">${empty}</p>`;
  return html`<ol class="failures">
    ${entries.map((entry, index) => html`<li key=${`${entry.timestamp} ${entry.taskName}`}><${FailureOf}
      entry=${entry}
      isOpen=${index === 0 && !isClosed}
    /></li>`)}
  </ol>`;
}

function FailureOf({ entry, isOpen }) {
  const { message, traceback } = parted(entry);
  const concurrent = entry.concurrentExceptions || [];
  return html`<details open=${isOpen}>
    <summary><time>${time(entry.timestamp, true)}</time> <b>${entry.exceptionName}</b> <span>${message}</span></summary>
    <p class="quiet">
      ${entry.taskName && html`In ${entry.taskName}`}
      ${entry.endpoint && html` on ${entry.endpoint}`}
      ${entry.failureLabels.type && html`. It is a matter of ${MATTERS[entry.failureLabels.type] || entry.failureLabels.type}.`}
    </p>
    ${traceback && html`<pre tabindex="0" aria-label="Traceback">${traceback}</pre>`}
    ${concurrent.length > 0 && html`<h2>At the same time</h2><${FailureList} entries=${concurrent} isClosed />`}
  </details>`;
}

/** The sentence without the name of its class, and what follows it. */
function parted({ exceptionName, stacktrace }) {
  const text = stacktrace.startsWith(`${exceptionName}: `) ? stacktrace.slice(exceptionName.length + 2) : stacktrace;
  const end = text.indexOf("\n");
  return end < 0 ? { message: text, traceback: "" } : { message: text.slice(0, end), traceback: text.slice(end + 1) };
}
