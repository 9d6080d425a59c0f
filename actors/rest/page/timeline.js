// When the job, its vertices and their subtasks were in which state.
import { html, useState } from "./html.js";
import { duration, time } from "./format.js";
import { hasEnded } from "./jobs.js";
import { Trouble } from "./parts.js";
import { useAnswer } from "./server.js";

const MOST_SUBTASKS = 200;

export function TimelineView({ job }) {
  const end = hasEnded(job.state) ? job["end-time"] : job.now;
  const span = { start: job["start-time"], end: Math.max(end, job["start-time"] + 1) };
  return html`<section class="card timeline" aria-label="Timeline">
    <p class="quiet">From ${time(span.start, true)} to ${time(span.end, true)}: ${duration(span.end - span.start)}</p>
    <${Bar} label="Job" span=${span} segments=${segmentsOf(job.timestamps, span.end)} />
    ${job.vertices.map((vertex) => html`<${VertexRows} key=${vertex.id} job=${job} vertex=${vertex} span=${span} />`)}
    <p class="legend">
      ${["created", "scheduled", "deploying", "initializing", "running", "finished", "failed", "canceled"].map(
        (name) => html`<span class="key state-${name}" key=${name}>${name}</span>`,
      )}
    </p>
  </section>`;
}

/** [{state, start, end}] in their order; the last one goes on until `end`. A state that was never entered has 0. */
function segmentsOf(timestamps, end) {
  const entered = Object.entries(timestamps).filter(([, at]) => at > 0);
  entered.sort(([, one], [, other]) => one - other);
  return entered.map(([state, start], index) => ({
    state,
    start,
    end: entered[index + 1]?.[1] ?? Math.max(end, start),
  }));
}

function VertexRows({ job, vertex, span }) {
  const [isOpen, setOpen] = useState(job.vertices.length <= 5 && vertex.parallelism <= 8);
  const answer = useAnswer(isOpen ? `jobs/${job.jid}/vertices/${vertex.id}/subtasktimes` : null);
  const subtasks = answer.value?.subtasks || [];
  const ended = vertex["end-time"] > 0 ? vertex["end-time"] : span.end;
  const whole = [{ state: vertex.status, start: vertex["start-time"], end: ended }];
  return html`
    <${Bar}
      label=${html`<button type="button" class="plain" aria-expanded=${isOpen ? "true" : "false"} onClick=${() => setOpen(!isOpen)}>
        ${isOpen ? "▾" : "▸"} ${vertex.name}
      </button>`}
      title=${vertex.name}
      span=${span}
      segments=${vertex["start-time"] > 0 ? whole : []}
    />
    ${isOpen && html`<${Trouble} of=${answer} />`}
    ${
      isOpen &&
      subtasks.slice(0, MOST_SUBTASKS).map(
        (subtask) =>
          html`<${Bar}
          key=${subtask.subtask}
          label=${`${subtask.subtask}`}
          title=${`subtask ${subtask.subtask} on ${subtask.endpoint}`}
          isSmall
          span=${span}
          segments=${segmentsOf(subtask.timestamps, span.end)}
        />`,
      )
    }
    ${isOpen && subtasks.length > MOST_SUBTASKS && html`<p class="quiet">The first ${MOST_SUBTASKS} of ${subtasks.length}.</p>`}
  `;
}

const TERMINAL = new Set(["FINISHED", "CANCELED", "FAILED"]);

function Bar({ label, title, span, segments, isSmall }) {
  const whole = span.end - span.start;
  const share = (at) => Math.min(1, Math.max(0, (at - span.start) / whole)) * 100;
  const said = segments.map(({ state, start, end }) => `${state} ${duration(end - start)}`).join(", ");
  return html`<div class="row ${isSmall ? "small" : ""}">
    <span class="name" title=${title}>${label}</span>
    <span class="track" role="img" aria-label=${said}>
      ${segments.map(
        ({ state, start, end }) =>
          html`<span
            key=${state}
            class="state-${state.toLowerCase()} ${TERMINAL.has(state) ? "end" : ""}"
            title=${`${state} from ${time(start, true)}, ${duration(end - start)}`}
            style=${{ left: `${share(start)}%`, width: `${share(end) - share(start)}%` }}
          ></span>`,
      )}
    </span>
  </div>`;
}
