// One job: how it is, what can be done with it, and its views.
import { html, useState } from "./html.js";
import { duration, time } from "./format.js";
import { Dialog, Figure, Figures, Status, Tabs, Trouble } from "./parts.js";
import { cancel, rescale, savepoint, useAnswer } from "./server.js";
import { hasEnded } from "./jobs.js";
import { GraphView } from "./graph.js";
import { CheckpointsView } from "./checkpoints.js";
import { ExceptionsView } from "./exceptions.js";
import { TimelineView } from "./timeline.js";
import { ConfigurationView } from "./configuration.js";
import { JobLog } from "./logs.js";

const VIEWS = {
  graph: ["Graph", GraphView],
  checkpoints: ["Checkpoints", CheckpointsView],
  exceptions: ["Exceptions", ExceptionsView],
  timeline: ["Timeline", TimelineView],
  configuration: ["Configuration", ConfigurationView],
  logs: ["Logs", JobLog],
};

export function JobView({ id, place }) {
  const answer = useAnswer(`jobs/${id}`);
  const job = answer.value;
  const name = place[0] in VIEWS ? place[0] : "graph";
  const View = VIEWS[name][1];
  const tabs = Object.entries(VIEWS).map(([key, [title]]) => [key, title, `#/jobs/${id}/${key}`]);
  return html`
    <div class="title">
      <h1>${job ? job.name : "Job"}</h1>
      ${job && html`<${Status} is=${job.state} />`}
      ${job && !hasEnded(job.state) && html`<${Actions} job=${job} />`}
    </div>
    ${
      job &&
      html`<${Figures}>
      <${Figure} label="Id"><code>${job.jid}</code><//>
      <${Figure} label="Started">${time(job["start-time"])}<//>
      <${Figure} label=${hasEnded(job.state) ? "Lasted" : "For"}>${duration(job.duration)}<//>
      ${hasEnded(job.state) && html`<${Figure} label="Ended">${time(job["end-time"])}<//>`}
      ${
        job["slot-wait"] &&
        html`<${Figure} label="Waits for">${job["slot-wait"].resources}, since ${time(job["slot-wait"].since)}<//>`
      }
      <${Figure} label="Kind">${job["job-type"].toLowerCase()}<//>
    <//>`
    }
    <${Trouble} of=${answer} />
    <${Tabs} label="Views of the job" tabs=${tabs} current=${name} />
    ${job && html`<${View} job=${job} place=${place.slice(1)} />`}
  `;
}

const UNDER_WAY = {
  rescale: "Waiting for slots and a checkpoint …",
  savepoint: "The savepoint is being taken …",
  stop: "The savepoint is being taken …",
  cancel: "Cancelling …",
};

const ACTIONS = {
  rescale: ["Rescale", "Give the job another parallelism", "Rescale it"],
  savepoint: ["Savepoint", "Take a savepoint", "Take it"],
  stop: ["Stop with savepoint", "Stop with a savepoint", "Stop the job"],
  cancel: ["Cancel", "Cancel the job", "Cancel the job"],
};

function Actions({ job }) {
  const [open, setOpen] = useState(null);
  const [said, setSaid] = useState(null);
  const submit = async (form) => {
    const kind = open;
    setOpen(null);
    setSaid({ text: UNDER_WAY[kind] });
    try {
      setSaid({ text: await done(job.jid, kind, form), isGood: true });
    } catch (error) {
      setSaid({ text: error.message, isBad: true });
    }
  };
  return html`<div class="actions">
    ${Object.entries(ACTIONS).map(
      ([kind, [label]]) =>
        (kind !== "stop" || job.isStoppable) &&
        (kind !== "rescale" || job["job-type"] === "STREAMING") &&
        html`<button type="button" key=${kind} class=${kind === "cancel" ? "danger" : ""} onClick=${() => setOpen(kind)}>
          ${label}
        </button>`,
    )}
    ${open && html`<${Question} kind=${open} onClose=${() => setOpen(null)} onSubmit=${submit} />`}
    ${
      said &&
      html`<div class="said ${said.isBad ? "bad" : said.isGood ? "good" : ""}" role="status">
      <pre>${said.text}</pre>
      <button type="button" aria-label="Close the message" onClick=${() => setSaid(null)}>×</button>
    </div>`
    }
  </div>`;
}

async function done(job, kind, form) {
  if (kind === "cancel") {
    await cancel(job);
    return "The job is being cancelled.";
  }
  if (kind === "rescale") {
    await rescale(job, form.get("parallelism"));
    return `The job runs with a parallelism of ${form.get("parallelism")}.`;
  }
  const directory = form.get("directory").trim() || null;
  const body =
    kind === "stop"
      ? { targetDirectory: directory, drain: form.get("drain") !== null }
      : { "target-directory": directory };
  return `The savepoint is at ${await savepoint(job, kind === "stop" ? "stop" : "savepoints", body)}`;
}

function Question({ kind, onClose, onSubmit }) {
  const [, title, action] = ACTIONS[kind];
  return html`<${Dialog} title=${title} action=${action} isDangerous=${kind === "stop" || kind === "cancel"} onClose=${onClose} onSubmit=${onSubmit}>
    ${
      kind === "cancel" &&
      html`<p>It ends at once. It takes no savepoint: what came after its last checkpoint is read again, or lost.</p>`
    }
    ${
      kind === "rescale" &&
      html`<p>It goes on from a checkpoint that it takes for that, once it has all slots.</p>
        <label>Parallelism <input name="parallelism" type="number" min="1" step="1" required /></label>`
    }
    ${
      (kind === "savepoint" || kind === "stop") &&
      html`<label>
        Directory
        <input name="directory" placeholder="as execution.checkpointing.savepoint-dir says" autocomplete="off" />
      </label>`
    }
    ${
      kind === "stop" &&
      html`<label class="choice">
      <input type="checkbox" name="drain" /> Fire all windows and timers first: the job is not to go on from there
    </label>`
    }
  <//>`;
}
