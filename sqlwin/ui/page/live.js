/* The page of what runs: asks the server each second, and changes what has changed. */

const TOKEN = new URLSearchParams(location.search).get("token") || "";
const EVERY_MS = 1000;
const COLORS = ["var(--local)", "var(--global)", "var(--exchange)", "var(--scan)", "var(--calc)"];
const PHASES = ["computing", "planning", "looking for input", "writing the log"];
const DAY = 86400;

/* Children by key: those that are there are kept and updated, in the order of the items. */
function keyed(host, items, keyOf, make) {
  host.cards = host.cards || new Map();
  const wanted = new Map(items.map((item) => [keyOf(item), item]));
  for (const [key, card] of host.cards) {
    if (!wanted.has(key)) {
      card.node.remove();
      host.cards.delete(key);
    }
  }
  let before = null;
  for (const [key, item] of wanted) {
    if (!host.cards.has(key)) host.cards.set(key, make(item));
    const { node, update } = host.cards.get(key);
    update(item);
    const place = before ? before.nextSibling : host.firstChild;
    if (place !== node) host.insertBefore(node, place);
    before = node;
  }
}

function badge(state) {
  return element("span", `badge ${state}`, state);
}

function facts(pairs) {
  const made = element("dl", "facts");
  for (const [term, value] of pairs) {
    const pair = element("div");
    pair.append(element("dt", "", term), element("dd", "", value));
    made.append(pair);
  }
  return made;
}

const perSecond = (n) => `${short(n)} per second`;
const behind = (lag) => (lag === null ? "–" : lag < 0 ? "ahead" : lag < 7 * DAY ? seconds(lag) : `${number(Math.round(lag / DAY))} days`);

/* -- streams --------------------------------------------------------------------------------- */

function streamCard(stream) {
  const node = element("article", "stream");
  node.dataset.stream = `${stream.session}.${stream.number}`;
  const header = element("header"), waits = element("p", "waits"), figures = element("div");
  const charts = element("div", "charts"), sources = element("div"), time = element("div"), latest = element("div");
  const rows = chart("Rows read", perSecond), written = chart("Rows emitted", perSecond), dropped = chart("Late and dropped", short);
  const lag = chart("Behind at each micro-batch", seconds), state = chart("State", bytes);
  const batches = chart("Micro-batches", seconds, { stacked: true });
  charts.append(rows.figure, written.figure, lag.figure, batches.figure, state.figure, dropped.figure);
  const origin = element("pre", "origin");
  origin.hidden = true;
  latest.addEventListener("click", (event) => {
    const button = event.target.closest("button.statement");
    if (!button) return;
    origin.hidden = false;
    origin.textContent = button.dataset.text;
    getSelection().selectAllChildren(origin);
    origin.scrollIntoView({ block: "nearest" });
  });
  const fold = element("details");
  const text = element("pre"), links = element("p", "links");
  fold.append(element("summary", "", "Statement"), text);
  node.append(header, waits, figures, charts, sources, latest, origin, time, fold, links);

  function update(now) {
    header.replaceChildren(element("h3", "", now.name === now.into ? now.name : `${now.name} → ${now.into}`), badge(now.state),
      element("span", "dim", `stream ${now.number}${now.checkpoint ? `, checkpoint ${now.checkpoint}` : ""}`));
    waits.textContent = now.waits_for;
    waits.className = `waits ${now.state}`;
    figures.replaceChildren(facts(streamFacts(now)));
    text.textContent = now.statement.trim();
    if (now.plan && !links.firstChild) links.append(planLink(now.plan, "Plan"));
    drawCharts(now);
    sources.replaceChildren(...sourceTable(now));
    time.replaceChildren(...phaseShares(now));
    keepScroll(latest, latestTables(now), JSON.stringify([now.latest, now.latest_problem, now.state]));
  }

  function drawCharts(now) {
    const points = now.points;
    const times = points.map((point) => point.at);
    // over the time since the micro-batch before
    const rate = (amount) => points.map((point, i) => {
      const passed = i ? Math.max(point.at - points[i - 1].at, 1e-3) : Math.max(point.seconds, 1e-3);
      const value = amount(point, points[i - 1]);
      return value === null ? null : value / passed;
    });
    rows.update(times, [{ name: "", color: COLORS[0], values: rate((point) => point.rows_in), filled: true }]);
    written.figure.hidden = now.rows_out === null;
    const since = (point, last) => (point.rows_out === null ? null : Math.max(0, point.rows_out - (last ? last.rows_out : 0)));
    written.update(times, [{ name: "", color: COLORS[3], values: rate(since), filled: true }]);
    const lags = points.map((point) => (point.watermark_us === null || point.watermark_us >= 2 ** 61 ? null : point.at - point.watermark_us / 1e6));
    const isLive = lags.some((each) => each !== null && each < 7 * DAY);
    lag.figure.hidden = !isLive;
    lag.update(times, [{ name: "", color: COLORS[1], values: lags.map((each) => (each !== null && each < 7 * DAY ? each : null)), filled: true }]);
    state.figure.hidden = dropped.figure.hidden = !now.operators.length;
    state.update(times, [{ name: "", color: COLORS[2], values: points.map((point) => point.state_bytes), filled: true }]);
    const gone = [{ name: now.late_table ? `late, to ${now.late_table}` : "late", color: COLORS[1], values: points.map((point) => point.late), filled: true }];
    if (now.without_time) gone.push({ name: "without a time", color: COLORS[4], values: points.map((point) => point.without_time) });
    dropped.update(times, gone);
    batches.update(times, phasesOf(points.map((point) => point.phases)).map(([name, values], i) => ({ name, color: COLORS[i], values })));
  }
  return { node, update };
}

/* Seconds by phase, in one order, of each of several micro-batches. */
function phasesOf(all) {
  const names = [...PHASES, ...new Set(all.flatMap((phases) => Object.keys(phases)))].filter((name, i, list) => list.indexOf(name) === i);
  return names.map((name) => [name, all.map((phases) => phases[name] || 0)]).filter(([, values]) => values.some((value) => value > 0));
}

function streamFacts(now) {
  const found = [["Rows read", number(now.rows_in)]];
  if (now.rows_out !== null) found.push(["Emitted", number(now.rows_out)]);
  if (now.operators.length) {
    const first = now.operators[0];
    found.push(["Watermark", first.watermark === "-" ? "none yet" : first.watermark.replace(/\.\d+$/, "")]);
    if (first.lag_seconds !== null && first.lag_seconds >= 0) found.push(["Behind now", behind(first.lag_seconds)]);
    const sum = (name) => now.operators.reduce((total, each) => total + each[name], 0);
    found.push(["State", `${short(sum("state_rows"))} rows · ${bytes(sum("state_bytes"))}`]);
    found.push(["Late", number(now.late)]);
    if (now.without_time) found.push(["Without a time", number(now.without_time)]);
  }
  if (now.batches) found.push(["Micro-batches", `${number(now.batches)} · last ${seconds(now.batch_seconds)}`]);
  return found;
}

function tableOf(columns, rows) {
  const table = element("table");
  const head = element("thead"), names = element("tr"), body = element("tbody");
  for (const [name, kind] of columns) names.append(element("th", kind, name));
  head.append(names);
  body.append(...rows);
  table.append(head, body);
  return table;
}

function sourceTable(now) {
  const rows = now.operators.flatMap((operator) => operator.sources.map((source) => {
    const row = element("tr");
    const standing = source.is_done ? "end of input"
      : operator.follows_clock ? "silent: the watermark advances with the clock" : source.is_idle ? "idle: the watermark does not wait for it"
      : source.holds_back ? "holds the watermark back" : "";
    if (now.operators.length > 1) row.append(element("td", "number", operator.number + 1));
    row.append(element("td", "mono", source.name), element("td", "", source.watermark), element("td", "number", behind(source.lag_seconds)),
      element("td", source.holds_back ? "holds" : "dim", standing));
    return row;
  }));
  if (!rows.length) return [];
  const columns = [["source", ""], ["watermark", ""], ["behind now", "number"], ["", ""]];
  if (now.operators.length > 1) columns.unshift(["operator", "number"]);
  return [element("h4", "", "Sources"), wide(tableOf(columns, rows))];
}

function phaseShares(now) {
  const found = Object.entries(now.phases).filter(([, spent]) => spent > 0)
    .sort(([a], [b]) => PHASES.indexOf(a) - PHASES.indexOf(b));
  if (!found.length) return [];
  const all = found.reduce((sum, [, spent]) => sum + spent, 0);
  const bar = element("div", "shares"), legend = element("ul", "legend");
  found.forEach(([name, spent], i) => {
    const part = element("i"), entry = element("li", "", `${name} ${seconds(spent)} (${Math.round((100 * spent) / all)} %)`);
    for (const each of [part, entry]) each.style.setProperty("--color", COLORS[i % COLORS.length]);
    part.style.width = `${(100 * spent) / all}%`;
    bar.append(part);
    legend.append(entry);
  });
  return [element("h4", "", `Time spent in ${count(now.batches, "micro-batch").replace(/batchs$/, "batches")}`), bar, legend];
}

/* New contents of a place, if they are new, without its tables jumping back to their first rows. */
function keepScroll(place, contents, mark) {
  if (place.mark === mark) return;
  place.mark = mark;
  const scrolled = [...place.querySelectorAll(".latest")].map((each) => [each.scrollLeft, each.scrollTop]);
  place.replaceChildren(...contents);
  [...place.querySelectorAll(".latest")].forEach((each, i) => {
    if (scrolled[i]) [each.scrollLeft, each.scrollTop] = scrolled[i];
  });
}

function latestTables(now) {
  const found = [];
  // rows that tasks write are fetched from the next ones on, for this page
  if (!now.latest.length && !now.latest_problem && now.rows_out !== null && now.state === "running") {
    found.push(element("h4", "", "Last emitted"), element("p", "waits", "rows appear here when the next ones are emitted"));
  }
  if (now.latest_problem) found.push(element("p", "waits", now.latest_problem));
  for (const { into, columns, numeric, rows, query, compared } of now.latest) {
    // a line above each new window
    const ends = columns.map((name, i) => [name, i]).filter(([name]) => /^window_(start|end)$/.test(name)).map(([, i]) => i);
    const isExplained = query && compared.some((column) => column);
    let last = null;
    const lines = rows.map((values) => {
      const window = ends.map((i) => values[i]).join(" ");
      const row = element("tr", last !== null && last !== window ? "next" : "");
      last = window;
      values.forEach((value, i) => {
        const cell = element("td", value === null ? "null" : numeric[i] ? "number" : "", value === null ? "NULL" : value);
        cell.title = value === null ? "" : value;
        row.append(cell);
      });
      if (isExplained) row.append(originCell(query, compared, values));
      return row;
    });
    const box = element("div", "latest");
    box.tabIndex = 0;
    const heads = columns.map((name, i) => [name, numeric[i] ? "number" : ""]);
    box.append(tableOf(isExplained ? [...heads, ["", ""]] : heads, lines));
    const title = element("h4", "", now.latest.length > 1 ? `Last emitted, into ${into}` : "Last emitted");
    if (query) title.append(" ", textButton("advice", "ADVISE: the delay that the watermark should have", `ADVISE ${query}\n;`));
    found.push(title, box);
  }
  return found;
}

/* A cell with a button for the EXPLAIN ROW of a row: its query, and a condition on the columns that can be compared. */
function originCell(query, compared, values) {
  const quoted = (name) => "`" + name.replace(/`/g, "``") + "`", text = (value) => `'${value.replace(/'/g, "''")}'`;
  const literal = (kind, value) => (kind === "number" ? value : kind === "text" ? text(value) : `${kind} ${text(value)}`);
  const conditions = compared.map((column, i) => [column, values[i]]).filter(([column]) => column)
    .map(([[name, kind], value]) => `${quoted(name)} ${value === null ? "IS NULL" : `= ${literal(kind, value)}`}`);
  const cell = element("td");
  cell.append(textButton("rows", "EXPLAIN ROW: the rows of the input that are in this row",
    `EXPLAIN ROW SELECT * FROM (\n${query}\n)\nWHERE ${conditions.join(" AND ")};`));
  return cell;
}

/* A button that shows a statement to copy. */
function textButton(name, title, statement) {
  const button = element("button", "statement", name);
  button.title = title;
  button.dataset.text = statement;
  return button;
}

/* -- statements ------------------------------------------------------------------------------ */

function statementItem(statement) {
  const node = element("details", "item");
  node.dataset.statement = `${statement.session}.${statement.number}`;
  const summary = element("summary"), detail = element("div", "detail");
  node.append(summary, detail);
  let shown = null;
  node.addEventListener("toggle", () => { if (node.open) drawDetail(shown); });

  function update(now) {
    shown = now;
    const state = badge(now.state);
    const parts = [state, element("span", "said", now.text.trim().replace(/\s+/g, " "))];
    const rows = now.rows === null ? "" : `${counted(now.rows, "rows")} · `;
    parts.push(element("span", "took", rows + seconds(Math.max(0, (now.ended || now.at) - now.begun))));
    const [done, all] = [tasks(now, "tasks_done"), tasks(now, "tasks")];
    if (now.state === "running" && all) {
      const progress = element("div", "progress"), part = element("i");
      part.style.width = `${(100 * done) / all}%`;
      progress.title = `${done} of ${all} tasks`;
      progress.append(part);
      parts.push(progress);
    }
    summary.replaceChildren(...parts);
    if (node.open) drawDetail(now);
  }

  function drawDetail(now) {
    const parts = [element("pre", "", now.text.trim())];
    if (now.message && now.message !== "OK") parts.push(element("p", `message ${now.state}`, now.message));
    parts.push(...gantt(now), ...stageTable(now));
    if (now.plan) {
      const links = element("p", "links");
      links.append(planLink(now.plan, "Plan"));
      parts.push(links);
    }
    detail.replaceChildren(...parts);
  }
  return { node, update };
}

const tasks = (now, name) => now.stages.reduce((sum, stage) => sum + stage[name], 0);

/* What the time of a statement was spent on, on one axis. */
function gantt(now) {
  const end = now.ended || now.at;
  const spans = now.spans.map((span) => ({ name: span.name, begun: span.begun, ended: span.ended || end, color: COLORS[4] }));
  for (const stage of now.stages) {
    if (stage.begun === null) continue;
    const color = { failed: "var(--mark)", running: "var(--local)" }[stage.state] || "var(--scan)";
    spans.push({ name: `stage ${stage.id}`, title: stage.name, begun: stage.begun, ended: stage.ended || end, color });
  }
  if (!spans.length) return [];
  spans.sort((a, b) => a.begun - b.begun);
  const from = now.begun, to = Math.max(end, ...spans.map((span) => span.ended), from + 0.001);
  const made = element("div", "gantt");
  for (const span of spans) {
    const name = element("span", "name", span.name), track = element("div", "track"), part = element("i");
    const left = (100 * (span.begun - from)) / (to - from), share = (100 * (span.ended - span.begun)) / (to - from);
    part.style.left = `${Math.max(0, Math.min(left, 99.6))}%`;
    part.style.width = `${Math.max(0.3, share)}%`;
    track.style.setProperty("--color", span.color);
    // in the bar where it is long, else behind it, or before it where there is no room
    const text = element("span", share > 24 ? "inside" : "", seconds(span.ended - span.begun));
    if (share > 24) text.style.left = `${left}%`;
    else if (left + share < 76) text.style.left = `${left + share}%`;
    else text.style.right = `${100 - left}%`;
    name.title = span.title || span.name;
    track.append(part, text);
    made.append(name, track);
  }
  return [element("h4", "dim", `Time spent: ${seconds(to - from)}`), made];
}

function stageTable(now) {
  if (!now.stages.length) return [];
  const rows = now.stages.map((stage) => {
    const row = element("tr");
    const name = element("td", "", `${stage.id} `);
    name.append(element("span", "dim", stage.name.replace(/ at .*/, "")));
    name.title = stage.name;
    const tasks = element("td", "number", `${number(stage.tasks_done)} / ${number(stage.tasks)}`);
    const bar = element("span", "bar"), part = element("i");
    part.style.width = `${(100 * stage.tasks_done) / Math.max(1, stage.tasks)}%`;
    bar.append(part);
    tasks.append(bar);
    row.append(name, element("td", stage.state === "failed" ? "holds" : "dim", stage.state), tasks,
      element("td", "number", seconds(stage.task_seconds)), element("td", "number", stage.rows_read ? number(stage.rows_read) : ""),
      element("td", "number", bytes(stage.shuffle_read_bytes)), element("td", "number", bytes(stage.shuffle_write_bytes)),
      element("td", stage.spilled_bytes ? "number holds" : "number", stage.spilled_bytes ? bytes(stage.spilled_bytes) : ""));
    return row;
  });
  const columns = [["stage", ""], ["", ""], ["tasks", "number"], ["task time", "number"], ["rows read", "number"],
    ["shuffle read", "number"], ["written", "number"], ["spilled", "number"]];
  const found = [element("h4", "dim", "Stages"), wide(tableOf(columns, rows))];
  if (now.rows_read) found.splice(1, 0, element("p", "dim", `The Arrow scan has read ${counted(now.rows_read, "rows")}.`));
  return found;
}

/* -- the page -------------------------------------------------------------------------------- */

function draw(state) {
  const several = state.sessions.length > 1;
  document.getElementById("sessions").replaceChildren(...state.sessions.map((session) => {
    const line = element("div", "", `${several ? `session ${session.number}: ` : ""}${session.spark}${session.start_seconds >= 0.1 ? `, started in ${seconds(session.start_seconds)}` : ""}`);
    if (session.spark_ui) {
      const link = element("a", "", "Spark's UI");
      Object.assign(link, { href: session.spark_ui, target: "_blank", rel: "noreferrer" });
      line.append(link);
    }
    return line;
  }));
  for (const [id, title, items, make] of [
    ["streams", "Streams", state.streams, streamCard], ["statements", "Statements", state.statements, statementItem],
  ]) {
    const section = document.getElementById(id);
    if (!section.firstChild) section.append(element("h2", "", title), element("div"));
    section.hidden = !items.length && id === "streams";
    keyed(section.lastChild, items.map((item) => ({ ...item, at: state.at, plan: planOf(item, state) })), (item) => `${item.session}.${item.number}`, make);
    if (id === "statements" && !items.length) section.lastChild.replaceChildren(element("p", "empty", "No statement has run yet."));
    else if (section.lastChild.querySelector(":scope > .empty")) section.lastChild.querySelector(":scope > .empty").remove();
  }
  const running = state.streams.filter((each) => each.state === "running").length
    + state.statements.filter((each) => each.state === "running" && !each.streams.length).length;
  document.title = running ? `${running} running · sqlwin` : "sqlwin";
}

/* Where the plan of a statement is, or of that which started a stream. */
function planOf(item, state) {
  const found = "streams" in item ? item
    : state.statements.find((each) => each.session === item.session && each.streams.includes(item.number));
  return found && found.has_plan ? `plan/${found.session}.${found.number}?token=${encodeURIComponent(TOKEN)}` : null;
}

function planLink(address, text) {
  const link = element("a", "", text);
  Object.assign(link, { href: address, target: "_blank" });
  return link;
}

function pulse(kind, text) {
  const place = document.getElementById("pulse");
  if (place.className !== kind) place.className = kind;
  if (place.textContent !== text) place.textContent = text;
}

let misses = 0;

async function look() {
  try {
    const answer = await fetch("api/state", { headers: { Authorization: `Bearer ${TOKEN}` } });
    if (!answer.ok) {
      pulse("lost", (await answer.text()).trim());
      setTimeout(look, 5 * EVERY_MS);
      return;
    }
    const state = await answer.json();
    misses = 0;
    draw(state);
    pulse(state.is_over ? "over" : "", state.is_over ? "ended: showing the last state" : "live");
    if (state.is_over) return;
  } catch (error) {
    misses += 1;
    if (misses > 1) pulse("lost", "sqlwin does not respond: showing the last state");
  }
  setTimeout(look, document.hidden ? 5 * EVERY_MS : misses > 5 ? 5 * EVERY_MS : EVERY_MS);
}

look();
