// What a job was started with, and what it counts.
import { html } from "./html.js";
import { Figure, Figures, Table, Trouble } from "./parts.js";
import { useAnswer } from "./server.js";
import { ACCUMULATORS } from "./vertex.js";

export const OPTIONS = [
  { title: "Option", value: (row) => row.key, show: (row) => html`<code>${row.key}</code>` },
  { title: "Value", isLong: true, value: (row) => row.value, show: (row) => html`<code>${row.value}</code>` },
];

export function ConfigurationView({ job }) {
  const answer = useAnswer(`jobs/${job.jid}/config`);
  const accumulators = useAnswer(`jobs/${job.jid}/accumulators`).value?.["user-task-accumulators"] || [];
  const execution = answer.value?.["execution-config"];
  const rows = Object.entries(execution?.["user-config"] || {}).map(([key, value]) => ({ key, value }));
  return html`<section class="card" aria-label="Configuration">
    <${Trouble} of=${answer} />
    ${
      execution &&
      html`<${Figures}>
        <${Figure} label="Parallelism">${execution["job-parallelism"]}<//>
        <${Figure} label="When it fails">${execution["restart-strategy"]}<//>
      <//>
      <h2>Options</h2>
      <${Table}
        label="Options"
        columns=${OPTIONS}
        rows=${rows}
        keyOf=${(row) => row.key}
        sortedBy=${{ column: 0, isDown: false }}
        empty="No option was set."
      />`
    }
    <h2>Accumulators</h2>
    <${Table}
      label="Accumulators"
      columns=${ACCUMULATORS}
      rows=${accumulators}
      keyOf=${(row) => row.name}
      empty="The job counts nothing."
    />
  </section>`;
}
