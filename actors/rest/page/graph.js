// The job's graph: a box for each vertex with the chain of its operators, where its time goes, and rates on the edges.
import { layout, Graph } from "./vendor/dagre.js";
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { count, operatorsOf, percent, perSecond } from "./format.js";
import { percentOf, Share, Status } from "./parts.js";
import { useAnswers } from "./server.js";
import { hasEnded } from "./jobs.js";
import { VertexDrawer } from "./vertex.js";

const RATES = [
  "numRecordsInPerSecond",
  "numRecordsOutPerSecond",
  "busyTimeMsPerSecond",
  "backPressuredTimeMsPerSecond",
];
const BOX = { width: 250, head: 66, line: 19, foot: 62, mostLines: 8 };
const NARROW = 700;
const SMALLEST = 0.6; // smaller than this it cannot be read, and is scrolled instead

export function GraphView({ job, place }) {
  const paths = job.vertices.map(
    ({ id }) => `jobs/${job.jid}/vertices/${id}/subtasks/metrics?get=${RATES.join(",")}&agg=avg,max,sum`,
  );
  const answers = useAnswers(paths);
  const isRunning = !hasEnded(job.state);
  const rates = Object.fromEntries(
    job.vertices.map(({ id }, index) => [id, ratesOf(isRunning ? answers[paths[index]]?.value : [])]),
  );
  const open = job.vertices.find(({ id }) => id === place[0]);
  if (!job.plan.nodes.length) {
    const why = isRunning ? "Its JobMaster is being started, and knows its vertices then." : "It had no vertices yet.";
    return html`<p class="card empty">${why}</p>`;
  }
  return html`
    <div class=${open ? "beside" : ""}>
      <${Picture} job=${job} rates=${rates} open=${open?.id} />
      ${open && html`<${VertexDrawer} key=${open.id} job=${job} vertex=${open} tab=${place[1]} />`}
    </div>
  `;
}

function ratesOf(listed = []) {
  const found = Object.fromEntries(listed.map((each) => [each.id, each]));
  const [recordsIn, recordsOut, busy, backPressured] = RATES.map((name) => found[name]);
  return {
    recordsIn: recordsIn?.sum,
    recordsOut: recordsOut?.sum,
    busy: (busy?.max ?? 0) / 1000,
    backPressured: (backPressured?.max ?? 0) / 1000,
  };
}

function Picture({ job, rates, open }) {
  const frame = useRef(null);
  const [width, setWidth] = useState(1000);
  const [zoom, setZoom] = useState(1);
  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(frame.current?.clientWidth || 1000));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const isNarrow = width < NARROW;
  const shape = JSON.stringify(job.plan.nodes.map(({ id, description, inputs }) => [id, description, inputs]));
  const placed = useMemo(() => place(job.plan.nodes, isNarrow), [shape, isNarrow]);
  useEffect(() => {
    const box = frame.current.querySelector('[aria-expanded="true"]')?.getBoundingClientRect();
    const shown = frame.current.getBoundingClientRect();
    if (box?.right > shown.right) frame.current.scrollLeft += box.right - shown.right + 8;
    if (box?.left < shown.left) frame.current.scrollLeft -= shown.left - box.left + 8;
  }, [open, isNarrow]);
  const scale = Math.max(SMALLEST, Math.min(1, (width - 2) / placed.width)) * zoom;
  const vertices = Object.fromEntries(job.vertices.map((vertex) => [vertex.id, vertex]));
  return html`<section class="graph card" aria-label="Job graph">
    <div class="zoom">
      <button type="button" aria-label="Smaller" onClick=${() => setZoom(zoom / 1.25)}>−</button>
      <button type="button" aria-label="Fit" onClick=${() => setZoom(1)}>Fit</button>
      <button type="button" aria-label="Larger" onClick=${() => setZoom(zoom * 1.25)}>+</button>
    </div>
    <div class="frame" ref=${frame}>
      <div style=${{ width: `${placed.width * scale}px`, height: `${placed.height * scale}px` }}>
        <div
          class="plane"
          style=${{ width: `${placed.width}px`, height: `${placed.height}px`, transform: `scale(${scale})` }}
        >
          <${Edges} placed=${placed} rates=${rates} />
          ${placed.boxes.map(
            (box) =>
              vertices[box.id] &&
              html`<${Box}
                key=${box.id}
                job=${job}
                box=${box}
                vertex=${vertices[box.id]}
                rates=${rates[box.id]}
                isOpen=${box.id === open}
              />`,
          )}
        </div>
      </div>
    </div>
    <p class="legend">
      <span class="key busy">busy</span><span class="key pressed">back-pressured</span>
      <span class="quiet">the busiest and the most held up subtask of each vertex</span>
    </p>
  </section>`;
}

/** Where boxes and edges are, in pixels at full size. */
function place(nodes, isNarrow) {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({
    rankdir: isNarrow ? "TB" : "LR",
    nodesep: 28,
    ranksep: isNarrow ? 56 : 110,
    marginx: 8,
    marginy: 8,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  const operators = Object.fromEntries(nodes.map((node) => [node.id, operatorsOf(node.description)]));
  for (const { id } of nodes) {
    const lines = Math.min(BOX.mostLines, operators[id].length - 1);
    graph.setNode(id, { width: BOX.width, height: BOX.head + lines * BOX.line + BOX.foot });
  }
  for (const { id, inputs = [] } of nodes) {
    inputs.forEach((input, index) => graph.setEdge(input.id, id, { strategy: input.ship_strategy }, String(index)));
  }
  layout(graph);
  const { width, height } = graph.graph();
  const boxes = nodes.map(({ id }) => ({ id, operators: operators[id], ...graph.node(id) }));
  const edges = graph.edges().map(({ v, w, name }) => ({
    from: v,
    to: w,
    name,
    ...graph.edge(v, w, name),
    isOnlyOut: graph.outEdges(v).length === 1,
    isOnlyIn: graph.inEdges(w).length === 1,
  }));
  return { width, height, boxes, edges };
}

function Edges({ placed, rates }) {
  return html`<svg class="edges" width=${placed.width} height=${placed.height} aria-hidden="true">
    <defs>
      <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
        <path d="M0 0L8 4L0 8z" />
      </marker>
    </defs>
    ${placed.edges.map((edge) => {
      const middle = edge.points[Math.floor(edge.points.length / 2)];
      const rate = rateOf(edge, rates);
      return html`<g key=${edge.from + edge.to + edge.name}>
        <path d=${curve(edge.points)} marker-end="url(#tip)" />
        <text x=${middle.x} y=${middle.y - 6}>${rate === undefined ? "" : perSecond(rate)}</text>
        <text class="strategy" x=${middle.x} y=${middle.y + 13}>${(edge.strategy || "").toLowerCase()}</text>
      </g>`;
    })}
  </svg>`;
}

/** Rows are counted at both ends of an edge, but for all edges of a vertex together. */
function rateOf({ from, to, isOnlyIn, isOnlyOut }, rates) {
  if (isOnlyIn) return rates[to]?.recordsIn;
  return isOnlyOut ? rates[from]?.recordsOut : undefined;
}

function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first.x} ${first.y}`;
  for (let index = 0; index < rest.length - 1; index += 1) {
    const [bend, next] = [rest[index], rest[index + 1]];
    const end = index === rest.length - 2 ? next : { x: (bend.x + next.x) / 2, y: (bend.y + next.y) / 2 };
    path += `Q${bend.x} ${bend.y} ${end.x} ${end.y}`;
  }
  return rest.length === 1 ? `${path}L${rest[0].x} ${rest[0].y}` : path;
}

function Box({ job, box, vertex, rates, isOpen }) {
  const isLong = box.operators.length > BOX.mostLines + 1;
  const shown = isLong ? box.operators.slice(0, BOX.mostLines) : box.operators;
  const hidden = box.operators.length - shown.length;
  const position = {
    left: `${box.x - box.width / 2}px`,
    top: `${box.y - box.height / 2}px`,
    width: `${box.width}px`,
    height: `${box.height}px`,
    "--share": percentOf(Math.max(rates.busy, rates.backPressured)),
  };
  const kind = rates.backPressured > rates.busy ? "pressed" : "busy";
  const href = isOpen ? `#/jobs/${job.jid}/graph` : `#/jobs/${job.jid}/graph/${vertex.id}`;
  const { metrics } = vertex;
  return html`<a
    class="box ${kind}"
    href=${href}
    style=${position}
    aria-expanded=${isOpen ? "true" : "false"}
  >
    <span class="head"><b>${shown[0]?.name || vertex.name}</b></span>
    <span class="state"><${Status} is=${vertex.status} /> <span>× ${vertex.parallelism}</span></span>
    <ul>
      ${shown.slice(1).map(({ name }, index) => html`<li key=${index}>${name}</li>`)}
      ${hidden > 0 && html`<li>and ${hidden} more</li>`}
    </ul>
    <span class="foot">
      <span class="rows">in ${count(metrics["read-records"])} · out ${count(metrics["write-records"])} rows</span>
      <${Share} of=${rates.busy} kind="busy" label="busy" />
      <${Share} of=${rates.backPressured} kind="pressed" label="back-pressured" />
    </span>
  </a>`;
}
