// TaskExecutors and masters: what they use, their logs and their threads.
import { html } from "./html.js";
import { bytes, count, NOTHING, time } from "./format.js";
import { Figure, Figures, Table, Tabs, Trouble } from "./parts.js";
import { useAnswer } from "./server.js";
import { Logs } from "./logs.js";
import { OPTIONS } from "./configuration.js";

const linkTo = (id, tab = "") => `#/taskexecutors/${encodeURIComponent(id)}${tab && `/${tab}`}`;
const usedSlots = (each) => `${each.slotsNumber - each.freeSlots} of ${each.slotsNumber}`;

const EXECUTORS = [
  { title: "TaskExecutor", value: (row) => row.path, show: (row) => html`<a href=${linkTo(row.id)}>${row.path}</a>` },
  { title: "Slots in use", value: (row) => row.slotsNumber - row.freeSlots, show: usedSlots, isNumber: true },
  { title: "Subtasks", value: (row) => row.assignedTasks, isNumber: true },
  { title: "CPUs", value: (row) => row.hardware.cpuCores, isNumber: true },
  {
    title: "Memory of the machine",
    value: (row) => row.hardware.physicalMemory,
    show: (row) => bytes(row.hardware.physicalMemory),
    isNumber: true,
  },
  {
    title: "Free",
    value: (row) => row.hardware.freeMemory,
    show: (row) => bytes(row.hardware.freeMemory),
    isNumber: true,
  },
  {
    title: "Heard last",
    value: (row) => row.timeSinceLastHeartbeat,
    show: (row) => time(row.timeSinceLastHeartbeat),
    isNumber: true,
  },
];

export function TaskExecutorsView() {
  const answer = useAnswer("taskmanagers");
  return html`<h1>TaskExecutors</h1>
    <${Trouble} of=${answer} />
    ${
      answer.value &&
      html`<section class="card">
      <${Table}
        label="TaskExecutors"
        columns=${EXECUTORS}
        rows=${answer.value.taskmanagers}
        keyOf=${(row) => row.id}
        empty="No TaskExecutor is registered."
      />
    </section>`
    }`;
}

export function TaskExecutorView({ id, tab = "overview" }) {
  const path = `taskmanagers/${encodeURIComponent(id)}`;
  const answer = useAnswer(path);
  const tabs = [
    ["overview", "Overview", linkTo(id, "overview")],
    ["logs", "Logs", linkTo(id, "logs")],
    ["threads", "Threads", linkTo(id, "threads")],
  ];
  return html`
    <p><a href="#/taskexecutors">All TaskExecutors</a></p>
    <h1>${answer.value?.path || id}</h1>
    <${Trouble} of=${answer} />
    <${Tabs} label="Views of the TaskExecutor" tabs=${tabs} current=${tab} />
    ${tab === "logs" && html`<${Logs} path=${path} />`}
    ${tab === "threads" && html`<${Threads} path=${path} />`}
    ${tab === "overview" && answer.value && html`<${Overview} path=${path} of=${answer.value} />`}
  `;
}

const SLOTS = [
  {
    title: "Job",
    value: (row) => row.jobId,
    show: (row) => html`<a href=${`#/jobs/${row.jobId}/graph`}>${row.jobId}</a>`,
  },
  { title: "CPUs", value: (row) => row.resource.cpuCores, isNumber: true },
  { title: "Subtasks", value: (row) => row.assignedTasks, isNumber: true },
];

function Overview({ path, of }) {
  return html`<section class="card" aria-label="Overview">
    <${Figures}>
      <${Figure} label="Slots in use">${usedSlots(of)}<//>
      <${Figure} label="Subtasks">${of.assignedTasks}<//>
      <${Figure} label="Memory of its processes">${bytes(of.metrics.heapUsed)}<//>
      <${Figure} label="Memory of the machine">${bytes(of.hardware.physicalMemory)}<//>
      <${Figure} label="Free">${bytes(of.hardware.freeMemory)}<//>
      <${Figure} label="Heard last">${time(of.timeSinceLastHeartbeat)}<//>
    <//>
    <h2>Slots in use</h2>
    <${Table}
      label="Slots in use"
      columns=${SLOTS}
      rows=${of.allocatedSlots.map((slot, index) => ({ ...slot, index }))}
      keyOf=${(row) => row.index}
      empty="No slot is in use."
    />
    <h2>Metrics</h2>
    <${Values} path=${`${path}/metrics`} />
  </section>`;
}

const VALUES = [
  { title: "Metric", value: (row) => row.id, show: (row) => html`<code>${row.id}</code>` },
  {
    title: "Value",
    value: (row) => Number(row.value),
    show: (row) => (Number.isNaN(Number(row.value)) ? row.value : count(Number(row.value))),
    isNumber: true,
  },
];

function Values({ path }) {
  const names = (useAnswer(path, 0).value || []).map((each) => encodeURIComponent(each.id));
  const values = useAnswer(names.length ? `${path}?get=${names.join(",")}` : null).value || [];
  return html`<${Table}
    label="Metrics"
    columns=${VALUES}
    rows=${values}
    keyOf=${(row) => row.id}
    empty="No metric is known."
  />`;
}

// -- masters -----------------------------------------------------------------------------------------------------

export function MastersView({ tab = "overview" }) {
  const tabs = [
    ["overview", "Overview", "#/masters"],
    ["logs", "Logs", "#/masters/logs"],
    ["threads", "Threads", "#/masters/threads"],
  ];
  return html`
    <h1>Masters</h1>
    <${Tabs} label="Views of the masters" tabs=${tabs} current=${tab} />
    ${tab === "logs" && html`<${Logs} path="jobmanager" />`}
    ${tab === "threads" && html`<${Threads} path="jobmanager" />`}
    ${tab === "overview" && html`<${Cluster} />`}
  `;
}

function Cluster() {
  const options = useAnswer("jobmanager/config");
  const environment = useAnswer("jobmanager/environment", 0).value;
  const packages = (environment?.classpath || []).map((name) => ({ name }));
  return html`<section class="card" aria-label="Overview">
    <${Trouble} of=${options} />
    <h2>Options</h2>
    <${Table}
      label="Options"
      columns=${OPTIONS}
      rows=${options.value || []}
      keyOf=${(row) => row.key}
      empty="No option was set."
    />
    <h2>Metrics</h2>
    <${Values} path="jobmanager/metrics" />
    <h2>Environment</h2>
    <p>${environment ? `${environment.jvm.version} on ${environment.jvm.arch}` : NOTHING}</p>
    <details>
      <summary>${packages.length} packages</summary>
      <ul class="packages">${packages.map(({ name }) => html`<li key=${name}>${name}</li>`)}</ul>
    </details>
  </section>`;
}

// -- threads -----------------------------------------------------------------------------------------------------

function Threads({ path }) {
  const answer = useAnswer(`${path}/thread-dump`);
  const threads = answer.value?.threadInfos || [];
  return html`<section class="card" aria-label="Threads">
    <${Trouble} of=${answer} />
    ${threads.map(
      ({ threadName, stringifiedThreadInfo }, index) =>
        html`<details key=${threadName + index} open=${threads.length < 4}>
          <summary>${threadName}</summary>
          <pre tabindex="0">${stringifiedThreadInfo}</pre>
        </details>`,
    )}
  </section>`;
}
