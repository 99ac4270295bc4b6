/* Small charts over time: lines, areas, stacked bars; what is under the pointer is told in words. */

/* How large a value is, in few letters: 1,234 or 12.3 k. */
function short(n) {
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(n) >= size) return `${(n / (unit === "k" ? 1e3 : size)).toFixed(1).replace(/\.0$/, "")} ${unit}`;
  }
  return n.toLocaleString("en", { maximumFractionDigits: n < 10 ? 1 : 0 });
}

const hour = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

/* A top of the axis that is a round number not below a value; of seconds and bytes likewise. */
function roundTop(most) {
  if (most <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].map((n) => n * size).find((n) => n >= most * 0.999);
}

/* A chart in a figure. `update(times, series)` draws it: of each series its name, its color, its
   values (null: none is known) and whether its area is filled. */
function chart(title, format, { stacked = false } = {}) {
  const figure = element("figure", "chart");
  const caption = element("figcaption");
  const svg = shape("svg", { role: "img", "aria-label": title });
  figure.append(caption, svg);
  let drawn = null;
  let pointed = null;

  function update(times, series) {
    drawn = { times, series };
    draw();
  }

  function draw() {
    if (!drawn) return;
    const { times, series } = drawn;
    const width = Math.max(200, svg.clientWidth || 260), height = 104, top = 14, bottom = 88;
    const last = times.length - 1;
    caption.replaceChildren(element("b", "", title));
    for (const each of series) {
      const value = each.values[pointed === null ? last : pointed];
      const key = element("span", "key", `${each.name} ${value === null || value === undefined ? "–" : format(value)}`.trim());
      key.style.setProperty("--color", each.color);
      caption.append(key);
    }
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    if (last < 0) return;
    const known = (values) => values.filter((value) => value !== null);
    const sums = times.map((_, i) => series.reduce((sum, each) => sum + (each.values[i] || 0), 0));
    const highest = roundTop(Math.max(0, ...(stacked ? sums : series.flatMap((each) => known(each.values)))));
    const [from, to] = [times[0], Math.max(times[last], times[0] + 1)];
    const x = (at) => ((at - from) / (to - from)) * (width - 2) + 1;
    const y = (value) => bottom - (Math.max(0, value) / highest) * (bottom - top);
    for (const value of [highest, 0]) {
      svg.append(shape("line", { class: "grid", x1: 0, x2: width, y1: y(value), y2: y(value) }));
    }
    const label = shape("text", { x: 1, y: top - 4 });
    label.textContent = format(highest);
    const begin = shape("text", { x: 1, y: height - 3 });
    begin.textContent = hour(from);
    const end = shape("text", { x: width - 1, y: height - 3, "text-anchor": "end" });
    end.textContent = last ? hour(times[last]) : "";
    svg.append(label, begin, end);
    if (stacked) bars(x, y, width, times, series);
    else for (const each of series) line(x, y, times, each);
    if (pointed !== null && pointed <= last) {
      const at = x(times[pointed]);
      svg.append(shape("line", { class: "at", x1: at, x2: at, y1: top, y2: bottom }));
    }
    const said = series.map((each) => `${each.name} ${known(each.values).length ? format(known(each.values).at(-1)) : "unknown"}`);
    svg.setAttribute("aria-label", `${title}: ${said.join(", ")}`);
  }

  function line(x, y, times, { values, color, filled }) {
    const points = times.map((at, i) => [x(at), values[i]]).filter(([, value]) => value !== null)
      .map(([at, value]) => [at, y(value)]);
    if (!points.length) return;
    const style = `--color:${color}`;
    const path = points.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" L");
    if (points.length === 1) svg.append(shape("circle", { class: "dot", cx: points[0][0], cy: points[0][1], r: 3, style }));
    else {
      const [first, final] = [points[0][0], points.at(-1)[0]];
      if (filled) svg.append(shape("path", { class: "area", d: `M${path} L${final},${y(0)} L${first},${y(0)} Z`, style }));
      svg.append(shape("path", { class: "line", d: `M${path}`, style }));
    }
  }

  function bars(x, y, width, times, series) {
    const room = times.length > 1 ? (width - 2) / (times.length - 1) : 14;
    const thick = Math.max(1.5, Math.min(12, room * 0.7));
    times.forEach((at, i) => {
      let below = 0;
      const left = Math.min(Math.max(0, x(at) - thick / 2), width - thick);
      for (const { values, color } of series) {
        const value = values[i] || 0;
        const [a, b] = [y(below), y(below + value)];
        if (a - b > 0.2) svg.append(shape("rect", { class: "bar", x: left, y: b, width: thick, height: a - b, style: `--color:${color}` }));
        below += value;
      }
    });
  }

  svg.addEventListener("pointermove", (event) => {
    if (!drawn || !drawn.times.length) return;
    const { times } = drawn;
    const bounds = svg.getBoundingClientRect();
    const at = times[0] + ((event.clientX - bounds.left) / bounds.width) * (Math.max(times.at(-1), times[0] + 1) - times[0]);
    pointed = times.reduce((best, time, i) => (Math.abs(time - at) < Math.abs(times[best] - at) ? i : best), 0);
    draw();
    tip(hour(times[pointed]), event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", () => {
    pointed = null;
    tip(null);
    draw();
  });
  new ResizeObserver(() => draw()).observe(figure);
  return { figure, update };
}
