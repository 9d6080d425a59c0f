// What the threads of a vertex's subtasks spend their time on, as a tree that hangs from the top.
import { html, useMemo, useState } from "./html.js";
import { duration, NOTHING, operatorsOf, percent, time } from "./format.js";
import { Trouble } from "./parts.js";
import { useAnswer } from "./server.js";

const TYPES = { full: "all of the time", on_cpu: "on the processor", off_cpu: "waiting" };

const SMALLEST = 0.0015; // what is narrower cannot be seen

const [TERMINATED, WAITING] = [-1, -3]; // instead of a time, as Flink has it

export function FlameGraph({ job, vertex, path }) {
  const [chosen, setChosen] = useState({ type: "full", subtaskindex: "", operator: "" });
  const [text, setText] = useState("");
  const [zoom, setZoom] = useState([]);
  const query = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value));
  const answer = useAnswer(`${path}/flamegraph?${query}`);
  const operators = operatorsOf(job.plan.nodes.find(({ id }) => id === vertex.id)?.description);
  const { endTimestamp, data } = answer.value || {};
  const choice = (label, name, options) => html`<label class="choice">
    ${label}
    <select
      value=${chosen[name]}
      onChange=${(event) => {
        setChosen({ ...chosen, [name]: event.target.value });
        setZoom([]);
      }}
    >
      ${options.map(([value, title]) => html`<option value=${value} key=${value}>${title}</option>`)}
    </select>
  </label>`;
  const indices = [...Array(vertex.parallelism).keys()].map((index) => [String(index), index]);
  const file = `${vertex.name.replace(/[^\w-]+/g, "-").slice(0, 60)}`;
  return html`
    <${Trouble} of=${answer} />
    <div class="choices">
      ${choice("Time", "type", Object.entries(TYPES))}
      ${choice("Subtask", "subtaskindex", [["", `all ${vertex.parallelism} together`], ...indices])}
      ${choice("Operator", "operator", [["", "all"], ...operators.map(({ name }) => [name, name])])}
      <label class="choice">
        Find <input type="search" value=${text} onInput=${(event) => setText(event.target.value)} />
      </label>
    </div>
    ${endTimestamp === TERMINATED && html`<p class="empty">No such subtask runs.</p>`}
    ${endTimestamp === WAITING && html`<p class="waiting" role="status">Waiting for the first samples …</p>`}
    ${data && !data.value && html`<p class="empty">No time went there in the last minute.</p>`}
    ${
      data?.value > 0 &&
      html`<${Tree} root=${data} text=${text} zoom=${zoom} setZoom=${setZoom} />
        <p class="legend">
          <span class="key operator">operators</span><span class="key own">flinkray</span
          ><span class="key others">programs and libraries</span>
          <span class="quiet">the last minute until ${time(endTimestamp)}</span>
        </p>
        <p>
          Download for <a href=${`${path}/flamegraph/speedscope?${query}`} download=${`${file}.speedscope.json`}
            >speedscope</a
          >, or as <a href=${`${path}/flamegraph/collapsed?${query}`} download=${`${file}.txt`}>collapsed stacks</a>
        </p>`
    }
  `;
}

function Tree({ root, text, zoom, setZoom }) {
  const boxes = useMemo(() => boxesOf(root, zoom), [root, zoom]);
  const wanted = text.toLowerCase();
  const isFound = (name) => wanted && name.toLowerCase().includes(wanted);
  const share = useMemo(() => (wanted ? shareOf(root, isFound) / root.value : null), [root, wanted]);
  const rows = Math.max(...boxes.map(({ depth }) => depth)) + 1;
  return html`
    <p class="quiet" role="status">
      ${share === null ? `${duration(root.value)} in all` : `${percent(share)} of the time is in what is found`}
      ${zoom.length > 0 && html` <button onClick=${() => setZoom([])}>Show all</button>`}
    </p>
    <div class="flame" style=${{ height: `${rows * 20}px` }}>
      ${boxes.map(({ node, left, width, depth, names, isAbove }) => {
        const title = `${node.name}\n${duration(node.value)}, ${percent(node.value / root.value)} of all`;
        return html`<button
          class=${`${kindOf(node.name)} ${isAbove ? "above" : ""} ${isFound(node.name) ? "found" : ""}`}
          style=${{ left: `${left * 100}%`, width: `${width * 100}%`, top: `${depth * 20}px` }}
          title=${title}
          onClick=${() => setZoom(names)}
          key=${names.join("\n")}
        >
          ${shortOf(node.name)}
        </button>`;
      })}
    </div>
  `;
}

/** The boxes of what is zoomed to, below those of its callers: {node, left, width (shares of all), depth, names}. */
function boxesOf(root, zoom) {
  const boxes = [];
  let node = root;
  for (const [index, name] of zoom.entries()) {
    const next = node.children.find((child) => child.name === name);
    if (!next) break; // it has not been seen for a minute
    boxes.push({ node, left: 0, width: 1, depth: index, names: zoom.slice(0, index), isAbove: true });
    node = next;
  }
  const place = (node, left, width, names) => {
    boxes.push({ node, left, width, depth: names.length, names });
    for (const child of node.children) {
      const share = (width * child.value) / node.value;
      if (share >= SMALLEST) place(child, left, share, [...names, child.name]);
      left += share;
    }
  };
  place(node, 0, 1, zoom.slice(0, boxes.length));
  return boxes;
}

/** The time of all that is found, each counted once. */
const shareOf = (node, isFound) =>
  isFound(node.name) ? node.value : node.children.reduce((sum, child) => sum + shareOf(child, isFound), 0);

const OWN = /^(root$|\(made\)\.|(actors|flinkray|graphs)\.)/;

const kindOf = (name) => (name.startsWith("operator ") ? "operator" : OWN.test(name) ? "own" : "others");

/** Without the package: `actors.tasks.stream_task.StreamTask.step:12` as `StreamTask.step`. */
function shortOf(name) {
  if (name.startsWith("operator ") || name.startsWith("(")) return name;
  const parts = name.replace(/:\d+$/, "").split(".");
  const first = parts.findIndex((part) => /^[A-Z<]/.test(part));
  return (first < 0 ? parts.slice(-2) : parts.slice(first)).join(".") || NOTHING;
}
