// The parts that several views are made of.
import { html, useEffect, useRef, useState } from "./html.js";
import { NOTHING, percent, time } from "./format.js";

export const Status = ({ is }) =>
  html`<span class="status ${(is || "").toLowerCase()}">${(is || NOTHING).replaceAll("_", " ")}</span>`;

export const Figure = ({ label, children, title }) =>
  html`<div class="figure" title=${title}><dt>${label}</dt><dd>${children}</dd></div>`;

export const Figures = ({ children }) => html`<dl class="figures">${children}</dl>`;

/** Says that there is nothing yet, or why what is shown is old. */
export function Trouble({ of }) {
  if (of.error) {
    const since = of.time ? ` Shown is what was known at ${time(of.time)}.` : "";
    return html`<p class="trouble" role="status">${of.error.message}. Asking again.${since}</p>`;
  }
  return of.value === undefined ? html`<p class="waiting" role="status">Loading …</p>` : null;
}

/** A share between 0 and 1 as a bar with its number. label: of what, where nothing beside it says so but its colour. */
export const Share = ({ of, kind, label }) =>
  html`<span class="share ${kind}"
    >${label && html`<span class="unseen">${label} </span>`}<span class="bar"><span style=${{ width: `${Math.min(1, Math.max(0, of || 0)) * 100}%` }}></span></span
    ><span class="number">${percent(of)}</span></span
  >`;

export function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(
      ([name, title, href]) =>
        html`<a href=${href} aria-current=${name === current ? "page" : null} key=${name}>${title}</a>`,
    )}
  </nav>`;
}

const ROWS_AT_FIRST = 100;

/**
 * A table that can be sorted by each column that has a `value`.
 * columns: {title, value: row => number or text, show: row => what is shown, isNumber, isLong}
 */
export function Table({ label, columns, rows, keyOf, empty = "There is nothing.", rowClass, sortedBy }) {
  const [order, setOrder] = useState(sortedBy || { column: -1, isDown: false });
  const [most, setMost] = useState(ROWS_AT_FIRST);
  const { value } = columns[order.column] || {};
  const sorted = value ? [...rows].sort((one, other) => compare(value(one), value(other), order.isDown)) : rows;
  const sortBy = (column) =>
    setOrder({ column, isDown: order.column === column ? !order.isDown : !!columns[column].isNumber });
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="table" role="region" aria-label=${label} tabindex="0">
    <table>
      <thead>
        <tr>
          ${columns.map((column, index) => {
            const sort = order.column !== index ? "none" : order.isDown ? "descending" : "ascending";
            return html`<th scope="col" class=${column.isNumber ? "number" : ""} aria-sort=${column.value ? sort : null}>
              ${
                column.value
                  ? html`<button type="button" onClick=${() => sortBy(index)}>${column.title}</button>`
                  : column.title
              }
            </th>`;
          })}
        </tr>
      </thead>
      <tbody>
        ${sorted.slice(0, most).map(
          (row) =>
            html`<tr key=${keyOf(row)} class=${rowClass ? rowClass(row) : ""}>
              ${columns.map(
                (column) =>
                  html`<td class=${column.isNumber ? "number" : column.isLong ? "long" : ""}>
                    ${column.show ? column.show(row) : column.value(row)}
                  </td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
    ${
      rows.length > most &&
      html`<button type="button" onClick=${() => setMost(most + 10 * ROWS_AT_FIRST)}>
      Show more: ${most} of ${rows.length} are shown
    </button>`
    }
  </div>`;
}

function compare(one, other, isDown) {
  const order =
    typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
  return isDown ? -order : order;
}

/** A value for each subtask as a small square: 1,000 of them are seen at once. */
export function Squares({ label, shares }) {
  return html`<div class="squares" role="img" aria-label=${label}>
    ${shares.map(
      ({ kind, share, title }, index) =>
        html`<i key=${index} class=${kind} title=${title} style=${{ "--share": percentOf(share) }}></i>`,
    )}
  </div>`;
}

export const percentOf = (share) => `${Math.round(Math.min(1, Math.max(0, share || 0)) * 100)}%`;

const COLOURS = ["--series-1", "--series-2", "--series-3"];

/** A chart over time. series: {label, values}; times are in epoch milliseconds; show: value => text. */
export function Chart({ title, times, series, show }) {
  const place = useRef(null);
  const chart = useRef(null);
  const labels = series.map(({ label }) => label).join();
  const data = [times.map((at) => at / 1000), ...series.map(({ values }) => values)];
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      chart.current?.destroy();
      chart.current = drawn(place.current, series, show, data);
    };
    draw();
    const observer = new ResizeObserver(() => {
      const width = place.current?.clientWidth;
      if (width && chart.current.width !== width) chart.current.setSize({ width, height: CHART_HEIGHT });
    });
    observer.observe(place.current);
    dark.addEventListener("change", draw);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", draw);
      chart.current.destroy();
    };
  }, [labels]);
  useEffect(() => chart.current?.setData(data), [times, series]);
  const last = (values) => (values.length ? show(values.at(-1)) : NOTHING);
  const said = series.map(({ label, values }) => `${label} ${last(values)}`).join(", ");
  return html`<figure class="chart">
    <figcaption>
      <b>${title}</b>
      ${series.map(({ label, values }, index) => html`<span class="key series-${index + 1}">${label} ${last(values)}</span>`)}
    </figcaption>
    <div ref=${place} role="img" aria-label="${title} over time; at the end: ${said}"></div>
  </figure>`;
}

const CHART_HEIGHT = 130;

function drawn(place, series, show, data) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return new window.uPlot(
    {
      width: place.clientWidth || 300,
      height: CHART_HEIGHT,
      legend: { show: false },
      cursor: { y: false },
      scales: { y: { range: (_, low, high) => [Math.min(0, low), Math.max(high, 1e-9) * 1.05] } },
      axes: [
        { ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map((at) => time(at * 1000)) },
        { ...axis, size: 64, values: (_, ticks) => ticks.map(show) },
      ],
      series: [
        {},
        ...series.map(({ label }, index) => ({
          label,
          stroke: colour(COLOURS[index]),
          width: 2,
          points: { show: false },
        })),
      ],
    },
    data,
    place,
  );
}

/** A dialog that is open while it is shown; Escape and Cancel close it. */
export function Dialog({ title, onClose, onSubmit, action, isDangerous, children }) {
  const element = useRef(null);
  useEffect(() => element.current.showModal(), []);
  const submit = (event) => {
    event.preventDefault();
    onSubmit(new FormData(event.target));
  };
  return html`<dialog ref=${element} onClose=${onClose} aria-label=${title}>
    <form onSubmit=${submit}>
      <h2>${title}</h2>
      ${children}
      <p class="buttons">
        <button type="button" onClick=${onClose}>Leave it</button>
        <button type="submit" class=${isDangerous ? "danger" : "main"}>${action}</button>
      </p>
    </form>
  </dialog>`;
}
