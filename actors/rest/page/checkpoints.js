// How checkpoints and savepoints went: in sum, one by one, and what each subtask did.
import { html, useMemo } from "./html.js";
import { bytes, count, duration, NOTHING, time } from "./format.js";
import { Chart, Figure, Figures, Status, Table, Trouble } from "./parts.js";
import { useAnswer } from "./server.js";

export function CheckpointsView({ job, place }) {
  const [id, vertex] = place;
  const path = `jobs/${job.jid}/checkpoints`;
  return id
    ? html`<${OneCheckpoint} job=${job} path=${path} id=${id} vertex=${vertex} />`
    : html`<${History} job=${job} path=${path} />`;
}

// -- all ---------------------------------------------------------------------------------------------------------

const kindOf = (row) => (row.is_savepoint ? "savepoint" : row.checkpoint_type.toLowerCase().replaceAll("_", " "));
const acknowledged = (row) => `${row.num_acknowledged_subtasks} of ${row.num_subtasks}`;

function columnsOf(job) {
  return [
    {
      title: "Id",
      value: (row) => row.id,
      show: (row) => html`<a href=${`#/jobs/${job.jid}/checkpoints/${row.id}`}>${row.id}</a>`,
      isNumber: true,
    },
    { title: "Status", value: (row) => row.status, show: (row) => html`<${Status} is=${row.status} />` },
    { title: "Kind", value: kindOf },
    {
      title: "Triggered",
      value: (row) => row.trigger_timestamp,
      show: (row) => time(row.trigger_timestamp),
      isNumber: true,
    },
    {
      title: "Took",
      value: (row) => row.end_to_end_duration,
      show: (row) => duration(row.end_to_end_duration),
      isNumber: true,
    },
    {
      title: "Written",
      value: (row) => row.checkpointed_size,
      show: (row) => bytes(row.checkpointed_size),
      isNumber: true,
    },
    { title: "State", value: (row) => row.state_size, show: (row) => bytes(row.state_size), isNumber: true },
    { title: "Acknowledged", value: (row) => row.num_acknowledged_subtasks, show: acknowledged, isNumber: true },
    {
      title: "Why it failed",
      isLong: true,
      show: (row) => row.failure_message && html`<span class="bad">${row.failure_message}</span>`,
    },
  ];
}

function History({ job, path }) {
  const answer = useAnswer(path);
  const configured = useAnswer(`${path}/config`, 0).value;
  const { counts, summary, latest, history = [] } = answer.value || {};
  const columns = useMemo(() => columnsOf(job), [job.jid]);
  const completed = useMemo(() => history.filter((each) => each.className === "completed").reverse(), [answer.value]);
  const times = useMemo(() => completed.map((each) => each.trigger_timestamp), [completed]);
  const took = useMemo(
    () => [{ label: "took", values: completed.map((each) => each.end_to_end_duration) }],
    [completed],
  );
  const sizes = useMemo(
    () => [
      { label: "written", values: completed.map((each) => each.checkpointed_size) },
      { label: "state", values: completed.map((each) => each.state_size) },
    ],
    [completed],
  );
  return html`<section class="card" aria-label="Checkpoints">
    <${Trouble} of=${answer} />
    ${
      counts &&
      html`
      <${Figures}>
        <${Figure} label="Completed">${counts.completed}<//>
        <${Figure} label="In progress">${counts.in_progress}<//>
        <${Figure} label="Failed">${counts.failed}<//>
        <${Figure} label="Restored">${counts.restored}<//>
        <${Figure} label="Took, median">${quantile(summary.end_to_end_duration, duration)}<//>
        <${Figure} label="Took, at most">${counts.completed ? duration(summary.end_to_end_duration.max) : NOTHING}<//>
        <${Figure} label="State, at most">${counts.completed ? bytes(summary.state_size.max) : NOTHING}<//>
      <//>
      <${Latest} latest=${latest} />
      ${
        completed.length > 1 &&
        html`<div class="charts">
        <${Chart} title="Duration" times=${times} series=${took} show=${duration} />
        <${Chart} title="Size" times=${times} series=${sizes} show=${bytes} />
      </div>`
      }
      <h2>History</h2>
      <${Table}
        label="History of checkpoints"
        columns=${columns}
        rows=${history}
        keyOf=${(row) => row.id}
        empty="There has been no checkpoint."
      />
      ${configured && html`<${Configured} by=${configured} />`}
    `
    }
  </section>`;
}

const quantile = (statistics, show) => (typeof statistics.p50 === "number" ? show(statistics.p50) : NOTHING);

function Latest({ latest }) {
  const { savepoint, failed, restored } = latest;
  return html`<ul class="latest">
    ${restored && html`<li>
      Went on from ${restored.is_savepoint ? "savepoint" : "checkpoint"} ${restored.id} at${" "}
      ${time(restored.restore_timestamp)}<${Path} of=${restored} />
    </li>`}
    ${savepoint && html`<li>Last savepoint, of ${time(savepoint.trigger_timestamp)}<${Path} of=${savepoint} /></li>`}
    ${failed && html`<li class="bad">
      Checkpoint ${failed.id} failed at ${time(failed.failure_timestamp)}: ${failed.failure_message}
    </li>`}
  </ul>`;
}

/** Checkpoints in the memory of their job have no path, or a text in angle brackets that says so. */
const Path = ({ of: { external_path: path, discarded } }) =>
  path && !path.startsWith("<") && html`: <code>${path}</code>${discarded ? " (deleted since)" : ""}`;

function keptAtTheEnd({ enabled, delete_on_cancellation: isDeleted }) {
  if (!enabled) return "no";
  return isDeleted ? "unless cancelled" : "yes";
}

function Configured({ by }) {
  return html`<h2>Configured</h2>
    <${Figures}>
      <${Figure} label="Mode">${by.mode.replaceAll("_", " ")}<//>
      <${Figure} label="Every">${by.interval > 0 && by.interval < 1e15 ? duration(by.interval) : "never"}<//>
      <${Figure} label="Timeout">${duration(by.timeout)}<//>
      <${Figure} label="Pause, at least">${duration(by.min_pause)}<//>
      <${Figure} label="At once">${by.max_concurrent}<//>
      <${Figure} label="Failures borne">${count(by.tolerable_failed_checkpoints)}<//>
      <${Figure} label="Unaligned">${by.unaligned_checkpoints ? "yes" : "no"}<//>
      <${Figure} label="Kept at the end">${keptAtTheEnd(by.externalization)}<//>
      <${Figure} label="State backend">${by.state_backend}<//>
      <${Figure} label="Storage">${by.checkpoint_storage}<//>
    <//>`;
}

// -- one ---------------------------------------------------------------------------------------------------------

function OneCheckpoint({ job, path, id, vertex }) {
  const answer = useAnswer(`${path}/details/${id}`);
  const found = answer.value;
  const here = `#/jobs/${job.jid}/checkpoints`;
  const names = Object.fromEntries(job.vertices.map((each) => [each.id, each.name]));
  const columns = [
    {
      title: "Vertex",
      value: (row) => row.name,
      isLong: true,
      show: (row) =>
        html`<a
          href=${row.vertex === vertex ? `${here}/${id}` : `${here}/${id}/${row.vertex}`}
          aria-expanded=${row.vertex === vertex ? "true" : "false"}
          >${row.name}</a
        >`,
    },
    { title: "Acknowledged", value: (row) => row.num_acknowledged_subtasks, show: acknowledged, isNumber: true },
    {
      title: "Last at",
      value: (row) => row.latest_ack_timestamp,
      show: (row) => time(row.latest_ack_timestamp, true),
      isNumber: true,
    },
    {
      title: "Took",
      value: (row) => row.end_to_end_duration,
      show: (row) => duration(row.end_to_end_duration),
      isNumber: true,
    },
    {
      title: "Written",
      value: (row) => row.checkpointed_size,
      show: (row) => bytes(row.checkpointed_size),
      isNumber: true,
    },
    { title: "State", value: (row) => row.state_size, show: (row) => bytes(row.state_size), isNumber: true },
    {
      title: "In flight",
      value: (row) => row.persisted_data,
      show: (row) => bytes(row.persisted_data),
      isNumber: true,
    },
  ];
  const rows = Object.entries(found?.tasks || {}).map(([key, task]) => ({
    vertex: key,
    name: names[key] || key,
    ...task,
  }));
  return html`<section class="card" aria-label=${`Checkpoint ${id}`}>
    <p><a href=${here}>All checkpoints</a></p>
    <div class="title">
      <h2>${found?.is_savepoint ? "Savepoint" : "Checkpoint"} ${id}</h2>
      ${found && html`<${Status} is=${found.status} />`}
    </div>
    <${Trouble} of=${answer} />
    ${
      found &&
      html`
      <${Figures}>
        <${Figure} label="Kind">${kindOf(found)}<${Path} of=${found} /><//>
        <${Figure} label="Triggered">${time(found.trigger_timestamp, true)}<//>
        <${Figure} label="Took">${duration(found.end_to_end_duration)}<//>
        <${Figure} label="Written">${bytes(found.checkpointed_size)}<//>
        <${Figure} label="State">${bytes(found.state_size)}<//>
        <${Figure} label="Acknowledged">${acknowledged(found)}<//>
      <//>
      ${found.failure_message && html`<pre class="bad" tabindex="0">${found.failure_message}</pre>`}
      <${Table}
        label="Vertices of the checkpoint"
        columns=${columns}
        rows=${rows}
        keyOf=${(row) => row.vertex}
        empty="No vertex is known to take part."
      />
    `
    }
    ${vertex && html`<h3>${names[vertex] || vertex}</h3><${SubtasksOf} path=${`${path}/details/${id}/subtasks/${vertex}`} />`}
  </section>`;
}

const PART = (title, read, show) => ({
  title,
  value: (row) => read(row) ?? -1,
  show: (row) => show(read(row)),
  isNumber: true,
});

const PARTS = [
  PART("#", (row) => row.index, String),
  { title: "Status", value: (row) => row.status, show: (row) => html`<${Status} is=${row.status} />` },
  PART(
    "Acknowledged",
    (row) => row.ack_timestamp,
    (value) => time(value, true),
  ),
  PART("Took", (row) => row.end_to_end_duration, duration),
  PART("Barrier came after", (row) => row.start_delay, duration),
  PART("Alignment", (row) => row.alignment?.duration, duration),
  PART("Sync", (row) => row.checkpoint?.sync, duration),
  PART("Async", (row) => row.checkpoint?.async, duration),
  PART("Written", (row) => row.checkpointed_size, bytes),
  PART("State", (row) => row.state_size, bytes),
  { title: "Unaligned", value: (row) => (row.unaligned_checkpoint ? "yes" : "no") },
];

function SubtasksOf({ path }) {
  const answer = useAnswer(path);
  return html`<${Trouble} of=${answer} />
    <${Table}
      label="Subtasks of the checkpoint"
      columns=${PARTS}
      rows=${answer.value?.subtasks || []}
      keyOf=${(row) => row.index}
      empty="No subtask is known."
    />`;
}
