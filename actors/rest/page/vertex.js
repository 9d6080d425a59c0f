// What is known of one vertex, beside the graph.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { bytes, count, duration, NOTHING, operatorsOf, percent, perSecond, time } from "./format.js";
import { Chart, Figure, Figures, Share, Squares, Status, Table, Tabs, Trouble } from "./parts.js";
import { useAnswer } from "./server.js";
import { FailureList } from "./exceptions.js";
import { FlameGraph } from "./flame.js";

const TABS = {
  subtasks: "Subtasks",
  charts: "Charts",
  metrics: "Metrics",
  flame: "Flame graph",
  operators: "Operators",
  failures: "Failures",
};
const VIEWS = {
  subtasks: Subtasks,
  charts: Charts,
  metrics: Metrics,
  flame: FlameGraph,
  operators: Operators,
  failures: Failures,
};

const SIDE_BY_SIDE = 1200; // as in style.css

// What only a job that runs has.
const OF_RUNNING = ["charts", "metrics", "flame"];

export function VertexDrawer({ job, vertex, tab }) {
  const isHistory = useAnswer("config", 0).value?.features["web-history"];
  const shown = Object.entries(TABS).filter(([key]) => !isHistory || !OF_RUNNING.includes(key));
  const name = shown.some(([key]) => key === tab) ? tab : "subtasks";
  const here = `#/jobs/${job.jid}/graph`;
  const View = VIEWS[name];
  const place = useRef(null);
  useEffect(() => {
    if (innerWidth < SIDE_BY_SIDE) place.current.scrollIntoView(); // it is below the graph
    const leave = ({ key, target }) => {
      // In a dialog or a field, Escape is for those.
      if (key === "Escape" && !target.closest?.("dialog, input, select")) location.hash = here;
    };
    addEventListener("keydown", leave);
    return () => removeEventListener("keydown", leave);
  }, []);
  return html`<section class="drawer card" ref=${place} aria-label=${`Vertex ${vertex.name}`}>
    <div class="title">
      <h2>${vertex.name}</h2>
      <a class="close" href=${here} aria-label="Close the vertex">×</a>
    </div>
    <${Tabs}
      label="Views of the vertex"
      tabs=${shown.map(([key, title]) => [key, title, `${here}/${vertex.id}/${key}`])}
      current=${name}
    />
    <${View} job=${job} vertex=${vertex} path=${`jobs/${job.jid}/vertices/${vertex.id}`} />
  </section>`;
}

// -- subtasks ----------------------------------------------------------------------------------------------------

function Subtasks({ vertex, path }) {
  const answer = useAnswer(path);
  const pressure = useAnswer(`${path}/backpressure`).value?.subtasks || [];
  const watermarks = watermarksOf(useAnswer(`${path}/watermarks`).value);
  const ratios = Object.fromEntries(pressure.map((each) => [each.subtask, each]));
  const rows = (answer.value?.subtasks || []).map((subtask) => ({
    ...subtask,
    ratios: ratios[subtask.subtask] || {},
    watermark: watermarks[subtask.subtask],
  }));
  const level = ["high", "low"].find((name) => pressure.some((each) => each.backpressureLevel === name)) || "ok";
  const lowest = Math.min(...Object.values(watermarks));
  return html`
    <${Trouble} of=${answer} />
    <${Figures}>
      <${Figure} label="Status"><${Status} is=${vertex.status} /><//>
      <${Figure} label="Parallelism" title="and the largest one that its state allows">${vertex.parallelism} of ${vertex.maxParallelism}<//>
      <${Figure} label="Back-pressure">${pressure.length ? level : NOTHING}<//>
      <${Figure} label="Skew of rows read" title="how far the most loaded subtask is above the average">${skew(rows, "read-records")}<//>
      <${Figure} label="Skew of rows written">${skew(rows, "write-records")}<//>
      <${Figure} label="Lowest watermark">${Number.isFinite(lowest) ? time(lowest, true) : NOTHING}<//>
    <//>
    ${
      rows.length > 1 &&
      html`<${Squares} label="What each subtask is most, busy or back-pressured" shares=${rows.map(squareOf)} />
      <p class="legend"><span class="key busy">busy</span><span class="key pressed">back-pressured</span></p>`
    }
    <${Table}
      label="Subtasks"
      columns=${SUBTASKS}
      rows=${rows}
      keyOf=${(row) => row.subtask}
      empty="No subtask is known."
    />
  `;
}

function squareOf({ subtask, ratios: { busyRatio = 0, ratio = 0 } }) {
  const title = `subtask ${subtask}: busy ${percent(busyRatio)}, back-pressured ${percent(ratio)}`;
  return ratio > busyRatio ? { kind: "pressed", share: ratio, title } : { kind: "busy", share: busyRatio, title };
}

const watermarksOf = (listed = []) =>
  Object.fromEntries(listed.map(({ id, value }) => [id.split(".")[0], Number(value)]));

/** How far the largest is above the average; text. */
function skew(rows, figure) {
  const values = rows.map((row) => row.metrics[figure]);
  const average = values.reduce((sum, value) => sum + value, 0) / values.length;
  return average > 0 ? `+${percent(Math.max(...values) / average - 1)}` : NOTHING;
}

const SUBTASKS = [
  { title: "#", value: (row) => row.subtask, isNumber: true },
  { title: "Status", value: (row) => row.status, show: (row) => html`<${Status} is=${row.status} />` },
  {
    title: "Busy",
    value: (row) => row.ratios.busyRatio ?? -1,
    show: (row) => html`<${Share} of=${row.ratios.busyRatio} kind="busy" />`,
    isNumber: true,
  },
  {
    title: "Back-pressured",
    value: (row) => row.ratios.ratio ?? -1,
    show: (row) => html`<${Share} of=${row.ratios.ratio} kind="pressed" />`,
    isNumber: true,
  },
  {
    title: "Idle",
    value: (row) => row.ratios.idleRatio ?? -1,
    show: (row) => percent(row.ratios.idleRatio),
    isNumber: true,
  },
  ...[
    ["Rows read", "read-records", count],
    ["Rows written", "write-records", count],
    ["Bytes read", "read-bytes", bytes],
    ["Bytes written", "write-bytes", bytes],
  ].map(([title, name, show]) => ({
    title,
    value: (row) => row.metrics[name],
    show: (row) => show(row.metrics[name]),
    isNumber: true,
  })),
  {
    title: "Watermark",
    value: (row) => row.watermark ?? -Infinity,
    show: (row) => (row.watermark === undefined ? NOTHING : time(row.watermark, true)),
    isNumber: true,
  },
  { title: "For", value: (row) => row.duration, show: (row) => duration(row.duration), isNumber: true },
  { title: "Attempt", value: (row) => row.attempt + 1, isNumber: true },
  {
    title: "TaskExecutor",
    value: (row) => row.endpoint,
    show: (row) => html`<a href=${`#/taskexecutors/${encodeURIComponent(row["taskmanager-id"])}`}>${row.endpoint}</a>`,
  },
];

// -- charts ------------------------------------------------------------------------------------------------------

/** A minute of each of 1,000 subtasks has 15 MB: those of many are asked for less often. */
const historyEvery = (parallelism) => Math.max(1, Math.ceil(parallelism / 100));

function Charts({ vertex, path }) {
  const [subtask, setSubtask] = useState("all");
  const answer = useAnswer(`${path}/history`, historyEvery(vertex.parallelism));
  const all = answer.value?.subtasks || [];
  const chosen = subtask === "all" ? all : all.slice(Number(subtask), Number(subtask) + 1);
  const samples = useMemo(() => summed(chosen), [answer.value, subtask]);
  const times = useMemo(() => samples.map((each) => each.timestamp), [samples]);
  const series = (...named) =>
    named.map(([label, name, factor = 1]) => ({ label, values: samples.map((each) => each[name] * factor) }));
  const share = 1 / 1000 / (chosen.length || 1);
  const charts = useMemo(
    () => [
      ["Rows", series(["in", "records-in"], ["out", "records-out"]), perSecond],
      [
        "Time",
        series(
          ["busy", "busy-time", share],
          ["back-pressured", "backpressured-time", share],
          ["idle", "idle-time", share],
        ),
        percent,
      ],
      ["Bytes", series(["in", "bytes-in"], ["out", "bytes-out"]), (value) => `${bytes(value)}/s`],
      ["Waiting buffers", series(["for it", "input-queue"], ["for those behind", "output-queue"]), count],
    ],
    [samples],
  );
  return html`
    <${Trouble} of=${answer} />
    <label class="choice">
      Subtask
      <select value=${subtask} onChange=${(event) => setSubtask(event.target.value)}>
        <option value="all">all ${vertex.parallelism} together</option>
        ${all.map((_, index) => html`<option value=${String(index)} key=${index}>${index}</option>`)}
      </select>
    </label>
    ${
      samples.length
        ? html`<div class="charts">
          ${charts.map(([title, lines, show]) => html`<${Chart}
            key=${title}
            title=${title}
            times=${times}
            series=${lines}
            show=${show}
          />`)}
        </div>`
        : answer.value && html`<p class="empty">Nothing is reported: rates are those of running subtasks.</p>`
    }
  `;
}

/** The figures of several subtasks in sum. They report at about the same times: the last ones belong together. */
function summed(subtasks) {
  const reporting = subtasks.filter((samples) => samples.length);
  if (!reporting.length) return [];
  const length = Math.min(...reporting.map((samples) => samples.length));
  const ends = reporting.map((samples) => samples.slice(samples.length - length));
  return ends[0].map((first, index) => {
    const sum = { ...first };
    for (const samples of ends.slice(1)) {
      for (const [name, value] of Object.entries(samples[index])) if (name !== "timestamp") sum[name] += value;
    }
    return sum;
  });
}

// -- metrics -----------------------------------------------------------------------------------------------------

function Metrics({ path }) {
  const names = useAnswer(`${path}/subtasks/metrics`, 0);
  const wanted = (names.value || []).map((each) => encodeURIComponent(each.id));
  const answer = useAnswer(wanted.length ? `${path}/subtasks/metrics?get=${wanted.join(",")}` : null);
  const [text, setText] = useState("");
  const rows = (answer.value || []).filter((each) => each.id.toLowerCase().includes(text.toLowerCase()));
  return html`
    <${Trouble} of=${names.error ? names : answer} />
    <label class="choice">Name <input type="search" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
    <${Table}
      label="Metrics over subtasks"
      columns=${METRICS}
      rows=${rows}
      keyOf=${(row) => row.id}
      empty="No metric has this name."
    />
  `;
}

const isTime = (row) => row.id === "currentInputWatermark";

const METRICS = [
  { title: "Metric", value: (row) => row.id, show: (row) => html`<code>${row.id}</code>` },
  ...["min", "max", "avg", "sum"].map((name) => ({
    title: name,
    value: (row) => row[name],
    show: (row) => (isTime(row) ? (name === "sum" ? NOTHING : time(row[name], true)) : count(row[name])),
    isNumber: true,
  })),
  { title: "skew", value: (row) => row.skew, show: (row) => percent(row.skew / 100), isNumber: true },
];

// -- operators and failures --------------------------------------------------------------------------------------

function Operators({ job, vertex, path }) {
  const operators = operatorsOf(job.plan.nodes.find(({ id }) => id === vertex.id)?.description);
  const accumulators = useAnswer(`${path}/accumulators`);
  const executors = useAnswer(`${path}/taskmanagers`).value?.taskmanagers || [];
  return html`
    <h3>Chain</h3>
    <ol class="chain">
      ${operators.map(({ name, depth }, index) => html`<li key=${index} style=${{ "--depth": depth }}>${name}</li>`)}
    </ol>
    <h3>Accumulators</h3>
    <${Table}
      label="Accumulators"
      columns=${ACCUMULATORS}
      rows=${accumulators.value?.["user-accumulators"] || []}
      keyOf=${(row) => row.name}
      empty="It has none."
    />
    <h3>TaskExecutors</h3>
    <${Table}
      label="TaskExecutors of the vertex"
      columns=${EXECUTORS}
      rows=${executors}
      keyOf=${(row) => row.endpoint}
    />
  `;
}

export const ACCUMULATORS = [
  { title: "Name", value: (row) => row.name },
  { title: "Type", value: (row) => row.type },
  { title: "Value", value: (row) => Number(row.value), show: (row) => row.value, isNumber: true },
];

const EXECUTORS = [
  { title: "TaskExecutor", value: (row) => row.endpoint },
  { title: "Status", value: (row) => row.status, show: (row) => html`<${Status} is=${row.status} />` },
  {
    title: "Subtasks",
    value: (row) => Object.values(row["status-counts"]).reduce((sum, each) => sum + each, 0),
    isNumber: true,
  },
  {
    title: "Rows read",
    value: (row) => row.metrics["read-records"],
    show: (row) => count(row.metrics["read-records"]),
    isNumber: true,
  },
  {
    title: "Rows written",
    value: (row) => row.metrics["write-records"],
    show: (row) => count(row.metrics["write-records"]),
    isNumber: true,
  },
];

function Failures({ job, vertex }) {
  const answer = useAnswer(`jobs/${job.jid}/exceptions`);
  const entries =
    answer.value?.exceptionHistory.entries.flatMap((entry) => [entry, ...entry.concurrentExceptions]) || [];
  const own = entries.filter(({ taskName }) => taskName?.startsWith(`${vertex.name} (`));
  return html`<${Trouble} of=${answer} /><${FailureList} entries=${own} empty="No subtask of this vertex has failed." />`;
}
