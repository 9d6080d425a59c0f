// What processes log: the file of one, or all that belongs to a job.
import { html, useEffect, useRef, useState } from "./html.js";
import { bytes, time } from "./format.js";
import { Trouble } from "./parts.js";
import { useAnswer } from "./server.js";

/** The files that the processes at a path log and print to. */
export function Logs({ path }) {
  const files = useAnswer(`${path}/logs`);
  const listed = files.value?.logs || [];
  const [chosen, setChosen] = useState(null);
  const name = chosen ?? listed[0]?.name;
  const text = useAnswer(name ? `${path}/logs/${encodeURIComponent(name)}` : null);
  return html`<section class="card" aria-label="Logs">
    <${Trouble} of=${files} />
    ${files.value && !listed.length && html`<p class="empty">They print to no file of their own.</p>`}
    ${
      name &&
      html`<label class="choice">
        File
        <select value=${name} onChange=${(event) => setChosen(event.target.value)}>
          ${listed.map(
            (file) =>
              html`<option key=${file.name} value=${file.name}>
                ${file.name} (${bytes(file.size)}, ${time(file.mtime)})
              </option>`,
          )}
        </select>
      </label>
      <${Trouble} of=${text} />
      <${Tail} text=${text.value} />`
    }
  </section>`;
}

/** The log of a job, over all its processes. */
export function JobLog({ job }) {
  const text = useAnswer(`jobs/${job.jid}/logs`);
  return html`<section class="card" aria-label="Logs">
    <${Trouble} of=${text} />
    ${text.value !== undefined && html`<${Tail} text=${text.value} />`}
  </section>`;
}

const JSON_LINE = /^\{"time": /;

/** A line that was logged as JSON as one that people read. */
function readable(line) {
  if (!JSON_LINE.test(line)) return line;
  let known;
  try {
    known = JSON.parse(line);
  } catch {
    return line; // the end of a file may begin within a line
  }
  const { subtask, attempt } = known;
  const where = subtask === undefined ? "" : `: ${known.vertex} (${subtask + 1})#${attempt}`;
  const whose = known.job_id ? ` [${known.job_name || ""} ${known.job_id.slice(0, 8)}${where}]` : "";
  const first = `${known.time} ${known.level} ${known.logger}${whose}: ${known.message}`;
  return known.exception ? `${first}\n${known.exception}` : first;
}

/** The end of a log; it stays at its end, unless somebody has scrolled up to read. */
function Tail({ text = "" }) {
  const [wanted, setWanted] = useState("");
  const lines = text.split("\n").map(readable);
  const shown = (wanted ? lines.filter((line) => line.includes(wanted)) : lines).join("\n");
  const place = useRef(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (isAtEnd.current) place.current.scrollTop = place.current.scrollHeight;
  }, [shown]);
  const watch = ({ target }) => {
    isAtEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < 20;
  };
  return html`<label class="choice">
      Only lines with
      <input type="search" value=${wanted} onInput=${({ target }) => setWanted(target.value)} />
    </label>
    <pre class="log" ref=${place} tabindex="0" role="region" aria-label="Log" onScroll=${watch}>${shown}</pre>`;
}
