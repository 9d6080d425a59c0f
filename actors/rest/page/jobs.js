// All jobs.
import { html } from "./html.js";
import { duration, time } from "./format.js";
import { Figure, Figures, Status, Table, Trouble } from "./parts.js";
import { useAnswer } from "./server.js";

const ENDED = new Set(["FINISHED", "CANCELED", "FAILED", "SUSPENDED"]);

export const hasEnded = (state) => ENDED.has(state);

const COLUMNS = [
  {
    title: "Job",
    isLong: true,
    value: (job) => job.name,
    show: (job) => html`<a href=${`#/jobs/${job.jid}/graph`}>${job.name}</a>`,
  },
  { title: "Status", value: (job) => job.state, show: (job) => html`<${Status} is=${job.state} />` },
  { title: "Subtasks", value: (job) => job.tasks.total, show: (job) => subtasks(job.tasks), isNumber: true },
  { title: "Kind", value: (job) => job["jobType"] },
  { title: "Started", value: (job) => job["start-time"], show: (job) => time(job["start-time"]), isNumber: true },
  { title: "For", value: (job) => job.duration, show: (job) => duration(job.duration), isNumber: true },
];

const subtasks = (tasks) => `${tasks.running + tasks.finished} of ${tasks.total}`;

export function JobsView() {
  const overview = useAnswer("overview");
  const answer = useAnswer("jobs/overview");
  const cluster = overview.value || {};
  const isHistory = useAnswer("config", 0).value?.features["web-history"];
  const jobs = [...(answer.value?.jobs || [])].sort((one, other) => other["start-time"] - one["start-time"]);
  const running = jobs.filter((job) => !hasEnded(job.state));
  const ended = jobs.filter((job) => hasEnded(job.state));
  return html`
    <h1>${isHistory ? "Jobs that have ended" : "Jobs"}</h1>
    <${Figures}>
      ${!isHistory && html`<${Figure} label="Running">${cluster["jobs-running"]}<//>`}
      <${Figure} label="Finished">${cluster["jobs-finished"]}<//>
      <${Figure} label="Canceled">${cluster["jobs-cancelled"]}<//>
      <${Figure} label="Failed">${cluster["jobs-failed"]}<//>
      ${
        !isHistory &&
        html`<${Figure} label="TaskExecutors">${cluster.taskmanagers}<//>
          <${Figure} label="Free slots">${cluster["slots-available"]} of ${cluster["slots-total"]}<//>`
      }
    <//>
    <${Trouble} of=${answer} />
    ${
      answer.value &&
      !isHistory &&
      html`<section class="card">
        <h2>Running</h2>
        <${Table}
          label="Running jobs"
          columns=${COLUMNS}
          rows=${running}
          keyOf=${(job) => job.jid}
          empty="No job is running."
        />
      </section>`
    }
    ${
      answer.value &&
      html`<section class="card">
        <h2>Ended</h2>
        <${Table}
          label="Ended jobs"
          columns=${COLUMNS}
          rows=${ended}
          keyOf=${(job) => job.jid}
          empty="No job has ended."
        />
      </section>`
    }
  `;
}
