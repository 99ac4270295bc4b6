/* The page itself, drawn from the document. */

/* -- the graph ------------------------------------------------------------------------------- */

const FAMILIES = [
  [/Scan(?!.*Local)|Source/, "scan"], [/Local/, "local"], [/Exchange/, "exchange"],
  [/Global|WindowAggregate|TableFunction|Session|Rank/, "global"],
];

function family(name) {
  const found = FAMILIES.find(([pattern]) => pattern.test(name));
  return found ? found[1] : "calc";
}

/* Texts of an attribute: plain names in one line, expressions in lines of their own; of many lines
   the first ones and a fold with the rest. */
function texts(values) {
  const lines = [];
  let names = [];
  for (const value of [...values, null]) {
    if (value !== null && /^[$\w]+$/.test(value)) names.push(value);
    else {
      if (names.length) lines.push(names.join(", "));
      names = [];
      if (value !== null) lines.push(value);
    }
  }
  const joined = values.join(", ");
  if (lines.length === 1 || joined.length <= 56) return document.createTextNode(joined);
  const box = element("div");
  const shown = lines.length > 7 ? 6 : lines.length;
  box.append(list(lines.slice(0, shown)));
  if (lines.length > shown) {
    const more = element("details", "more");
    more.append(element("summary", "", `${lines.length - shown} more`), list(lines.slice(shown)));
    box.append(more);
  }
  return box;
}

function list(values) {
  const made = element("ul");
  for (const value of values) made.append(element("li", "", value));
  return made;
}

/* The name of an operator; on a narrow screen it breaks between its words. */
function title(name) {
  const made = element("span", "name");
  for (const word of name.split(/(?<=[a-z])(?=[A-Z])/)) made.append(word, element("wbr"));
  return made;
}

function card(operator, query, tree) {
  const measured = tree === "physical" && query.analysis ? query.analysis.operators[operator.id] : null;
  const made = element("section", `operator ${family(operator.name)}`);
  made.dataset.id = operator.id;
  const header = element("header");
  header.append(title(operator.name.replace(/^Logical/, "")));
  if (measured) {
    const figures = [];
    if (measured.seconds !== null) figures.push(seconds(measured.seconds));
    if (measured.peak_memory_bytes) figures.push(`${bytes(measured.peak_memory_bytes)} peak`);
    if (figures.length) header.append(element("span", "figures", figures.join(" · ")));
  }
  made.append(header);
  if (measured && measured.seconds !== null) {
    const all = Object.values(query.analysis.operators).map((each) => each.seconds || 0);
    const share = measured.seconds / Math.max(all.reduce((a, b) => a + b, 0), 1e-9);
    const bar = element("div", "share");
    bar.title = `${Math.round(share * 100)} % of the measured task time`;
    const part = element("i");
    part.style.width = `${share * 100}%`;
    bar.append(part);
    made.append(bar);
  }
  const attributes = element("dl", "attributes");
  for (const [key, values] of Object.entries(operator.attributes)) {
    const value = element("dd");
    value.append(texts(values));
    attributes.append(element("dt", "", key), value);
  }
  if (measured && measured.reduction !== null) {
    attributes.append(element("dt", "", "reduction"),
      element("dd", "", `${measured.reduction.toLocaleString("en", { maximumFractionDigits: 1 })} rows per partial`));
  }
  if (measured && measured.blobs_out !== null && operator.attributes.carries) {
    attributes.append(element("dt", "", "blobs"), element("dd", "", number(measured.blobs_out)));
  }
  for (const [key, value] of Object.entries(measured ? measured.counters : {})) {
    if (value && key !== "rows_scanned") {
      attributes.append(element("dt", "", key.replaceAll("_", " ")), element("dd", "", number(value)));
    }
  }
  made.append(attributes);
  if (operator.columns && operator.columns.length) made.append(columns(operator.columns));
  return made;
}

function columns(all) {
  const fold = element("details", "columns");
  fold.append(element("summary", "", count(all.length, "column")));
  const table = element("table");
  for (const each of all) {
    const row = element("tr");
    row.append(element("td", "mono", each.name), element("td", "mono dim", each.type + (each.nullable ? "" : " not null")));
    table.append(row);
  }
  fold.append(table);
  return fold;
}

/* What flows out of an operator; the more, the wider. */
function edge(id, query, tree) {
  const made = element("div", "edge");
  const measured = tree === "physical" && query.analysis ? query.analysis.operators[id] : null;
  if (measured && measured.rows_out !== null) {
    const size = measured.bytes_out !== null ? ` · ${bytes(measured.bytes_out)}` : "";
    made.append(element("span", "", counted(measured.rows_out, measured.unit_out) + size));
    made.classList.add("heavy");
    made.style.setProperty("--weight", `${2 + 2.6 * Math.log10(measured.rows_out + 1)}px`);
  }
  return made;
}

/* In place of an operator that several others read, and that stands where the first one reads it. */
function reference(operator) {
  const made = element("section", `operator reused ${family(operator.name)}`);
  const header = element("header");
  const show = element("button", "", "shown in the first branch");
  show.type = "button";
  show.addEventListener("click", () => {
    const graph = made.closest(".graph");
    graph.querySelector(`[data-id="${operator.id}"]`).scrollIntoView({ behavior: "smooth", block: "center" });
  });
  header.append(title(operator.name.replace(/^Logical/, "")), show);
  made.append(header);
  return made;
}

function branch(id, operators, query, tree, isLast, drawn) {
  const operator = operators.get(id);
  const made = element("div", "branch");
  if (drawn.has(id)) {
    made.append(reference(operator), edge(id, query, tree));
    return made;
  }
  drawn.add(id);
  if (operator.inputs.length) {
    const inputs = element("div", operator.inputs.length > 1 ? "inputs many" : "inputs");
    for (const source of operator.inputs) inputs.append(branch(source, operators, query, tree, false, drawn));
    made.append(inputs);
    if (operator.inputs.length > 1) made.append(element("div", "joint"));
  } else if (tree === "physical" && query.analysis) {
    const measured = query.analysis.operators[id];
    if (measured.rows_in !== null) {
      const source = edge(id, { analysis: { operators: { [id]: { ...measured, rows_out: measured.rows_in, unit_out: "rows", bytes_out: null } } } }, tree);
      source.querySelector("span").textContent += " scanned";
      made.append(source);
    }
  }
  made.append(card(operator, query, tree));
  if (!isLast || (tree === "physical" && query.analysis && operator.name !== "Sink")) {
    const out = edge(id, query, tree);
    if (!isLast || out.childElementCount) made.append(out);
  }
  return made;
}

function graph(query, tree) {
  const found = element("div", "graph");
  const operators = new Map(query.trees[tree].operators.map((each) => [each.id, each]));
  found.append(branch(query.trees[tree].root, operators, query, tree, true, new Set()));
  return found;
}

const TREES = [["bound", "As written"], ["logical", "Optimized"], ["physical", "Physical"]];

function planSection(query) {
  const section = element("section", "plan");
  section.append(element("h2", "", "Plan"));
  section.append(element("p", "dim", "Rows flow downwards."));
  const choice = element("div", "choice");
  choice.setAttribute("role", "group");
  choice.setAttribute("aria-label", "Stage of the plan");
  const place = element("div");
  for (const [tree, title] of TREES) {
    const button = element("button", "", title);
    button.type = "button";
    button.dataset.tree = tree;
    button.addEventListener("click", () => {
      for (const each of choice.children) each.setAttribute("aria-pressed", each === button);
      place.replaceChildren(graph(query, tree));
    });
    button.setAttribute("aria-pressed", tree === "physical");
    choice.append(button);
  }
  place.append(graph(query, "physical"));
  section.append(choice, place);
  return section;
}

/* -- the other sections ---------------------------------------------------------------------- */

function facts(query) {
  const found = [];
  const analysis = query.analysis;
  const largest = query.windows.reduce((a, w) => Math.max(a, w.slices_per_window || 0), 0);
  if (analysis) {
    const all = Object.values(analysis.operators);
    const local = all.filter((each) => each.reduction !== null);
    const partials = local.reduce((a, each) => a + each.rows_out, 0);
    const aggregated = Math.round(local.reduce((a, each) => a + each.reduction * each.rows_out, 0));
    found.push(["Time", seconds(analysis.seconds)]);
    if (local.length) {
      found.push(["Rows aggregated", number(aggregated)], ["Partials", number(partials)]);
      found.push(["Rows per partial", (aggregated / partials).toLocaleString("en", { maximumFractionDigits: 1 })]);
    }
    const sizes = query.trees.physical.operators.filter((o) => o.attributes.carries)
      .map((o) => analysis.operators[o.id].bytes_out).filter((n) => n !== null);
    if (sizes.length) found.push(["Exchanged", bytes(sizes.reduce((a, b) => a + b, 0))]);
    if (analysis.rows_out !== null) found.push(["Rows out", number(analysis.rows_out)]);
    if (analysis.stream) {
      const operators = analysis.stream.window_operators;
      found.push(["Micro-batches", number(analysis.stream.micro_batches.count)]);
      if (operators.length) found.push(["Late rows", number(operators.reduce((a, o) => a + o.late_rows, 0))]);
    }
  } else if (largest) {
    found.push(["Slices per window", number(largest)]);
    found.push(["Slice width", [...new Set(query.windows.flatMap((w) => w.slice_widths_us))].map(clock.duration).join(", ")]);
  }
  if (!found.length) return [];
  const made = element("dl", "facts");
  for (const [term, value] of found) {
    const pair = element("div");
    pair.append(element("dt", "", term), element("dd", "", value));
    made.append(pair);
  }
  return [made];
}

function windowSection(query) {
  if (!query.windows.length) return [];
  const section = element("section", "windows");
  section.append(element("h2", "", query.windows.length === 1 ? "Window" : "Windows"));
  const seen = new Set();
  for (const use of query.windows) {
    const months = Object.entries(use.parameters_months).map(([k, v]) => `${k.replace("_", " ")} ${count(v, "month")}`);
    const lengths = Object.entries(use.parameters_us).map(([k, v]) => `${k.replace("_", " ")} ${clock.duration(v)}`);
    const parameters = [...months, ...lengths];
    const title = `${use.kind} · ${parameters.join(", ")}`;
    if (seen.has(title)) continue;
    seen.add(title);
    const box = element("div", "window");
    box.append(element("h3", "", title), element("p", "dim", sentence(use, query)));
    timelines.push(timeline(box, use));
    section.append(box);
  }
  return [section];
}

const timelines = [];

function sentence(use, query) {
  const found = [];
  if (use.slice_widths_us.length && use.slices_per_window) {
    const width = [...new Set(use.slice_widths_us)].map(clock.duration).join(" and ");
    const most = use.kind === "CUMULATE" ? "up to " : "";
    const { size, slide } = use.parameters_us;
    if (slide > size) {
      found.push(`A window is one slice of ${clock.duration(size)}, followed by a gap of ${clock.duration(slide - size)}.`);
    } else found.push(use.slices_per_window === 1 ? `A window is one slice of ${width}.`
      : `A window consists of ${most}${number(use.slices_per_window)} slices of ${width}.`);
  } else if (use.copies > 1) {
    found.push(`Each row is copied into up to ${number(use.copies)} windows.`);
  } else if (use.copies === null && use.text.length > 1) {
    // sessions, and calendar windows, whose slices are of uneven widths
    found.push(...use.text.slice(1, 3).map((line) => `${line.trim().replace(/^./, (c) => c.toUpperCase())}.`));
  }
  if (use.time_column) found.push(`Time is ${use.time_column}${use.time_type === "timestamp" ? `, on the wall clock of ${query.time_zone}` : ""}.`);
  return found.join(" ");
}

function ruleSection(query) {
  const { applied, refused, left_to_spark: left, idle } = query.rules;
  if (!applied.length && !refused.length && !left.length) return [];
  const section = element("section");
  section.append(element("h2", "", "Rules"));
  const made = element("ul", "rules");
  const groups = new Map();
  for (const each of [...applied, ...refused]) {
    const key = [each.rule, each.reason || ""].join("|");
    if (!groups.has(key)) groups.set(key, { ...each, nodes: [] });
    groups.get(key).nodes.push(each.node);
  }
  for (const { rule, summary, reason, nodes } of groups.values()) {
    const text = element("div");
    text.append(element("span", "rule", rule), element("span", "dim", ` on ${[...new Set(nodes)].join(", ")}`));
    if (reason) text.append(element("div", "reason", reason));
    text.append(element("small", "", summary));
    made.append(item(reason ? "no" : "yes", text));
  }
  for (const note of left) {
    const text = element("div");
    text.append(element("span", "rule", "left to Spark"), element("div", "reason", note));
    made.append(item("no", text));
  }
  section.append(made);
  if (idle.length) {
    const fold = element("details");
    fold.append(element("summary", "", `${count(idle.length, "rule")} with nothing to do`));
    const rest = element("ul", "rules");
    for (const { rule, summary } of idle) {
      const text = element("div");
      text.append(element("span", "rule", rule), element("small", "", summary));
      rest.append(item("", text));
    }
    fold.append(rest);
    section.append(fold);
  }
  return [section];
}

function item(kind, text) {
  const made = element("li");
  const sign = element("span", `sign ${kind}`, kind === "yes" ? "✓" : kind === "no" ? "–" : "·");
  sign.title = kind === "yes" ? "applied" : kind === "no" ? "not applied" : "nothing to do";
  made.append(sign, text);
  return made;
}

function stageSection(query) {
  if (!query.analysis || !query.analysis.stages.length) return [];
  const section = element("section");
  section.append(element("h2", "", "Stages"));
  const ofStream = query.analysis.stream ? " Stages of all micro-batches with the same operators share a line." : "";
  section.append(element("p", "dim", `Stages with Python operators. Skew is the time of the slowest task divided by the median.${ofStream}`));
  const names = new Map(query.trees.physical.operators.map((each) => [each.id, each.name]));
  const table = element("table", "stages");
  const head = element("tr");
  for (const [text, kind] of [["stage", ""], ["tasks", "number"], ["task time", "number"], ["slowest", "number"], ["skew", "number"]]) {
    head.append(element("th", kind, text));
  }
  table.append(head);
  const most = Math.max(...query.analysis.stages.map((stage) => stage.seconds), 1e-9);
  for (const stage of query.analysis.stages) {
    const row = element("tr");
    const name = element("td", "", [...new Set(stage.operators.map((id) => names.get(id)))].join(", "));
    const bar = element("span", "bar");
    const part = element("i");
    part.style.width = `${(stage.seconds / most) * 100}%`;
    bar.append(part);
    name.append(bar);
    row.append(name);
    const skewed = stage.skew !== null && stage.skew >= 2 ? "number skewed" : "number";
    for (const [text, kind] of [
      [number(stage.tasks), "number"], [seconds(stage.seconds), "number"],
      [seconds(stage.slowest_seconds), "number"],
      [stage.skew === null ? "" : `${stage.skew.toFixed(1)}×`, skewed],
    ]) row.append(element("td", kind, text));
    table.append(row);
  }
  section.append(wide(table));
  if (query.analysis.spark_ui) {
    const link = element("a", "", "Spark UI");
    link.href = `${query.analysis.spark_ui}/SQL/`;
    section.append(link);
  }
  return [section];
}

const ENDS = {
  input: "ran to the end of its input",
  time: "ran for sqlwin.analyze.duration",
  interrupt: "ran until interrupted",
};

function watermark(entry) {
  if (entry.is_at_end_of_input) return "end of input";
  return entry.watermark_us === null ? "none yet" : clock.instant(entry.watermark_us);
}

function streamSection(query) {
  const stream = query.analysis && query.analysis.stream;
  if (!stream) return [];
  const section = element("section", "stream");
  section.append(element("h2", "", "Stream"));
  const batches = stream.micro_batches;
  section.append(element("p", "dim", `The stream ${ENDS[stream.ended]}: ${seconds(query.analysis.seconds)}.`));
  for (const operator of stream.window_operators) {
    const sources = operator.sources.length < 2 ? "" : ` (${operator.sources
      .map((s) => `${s.name} ${watermark(s)}${s.is_idle ? ", idle" : ""}`).join("; ")})`;
    const pairs = [
      ["Watermark", watermark(operator) + sources],
      ["State at most", `${counted(operator.most_state_rows, "partials")}, ${bytes(operator.most_state_bytes)}`],
      ["State at the end", `${counted(operator.state_rows, "partials")}, ${bytes(operator.state_bytes)}`],
      ["Late", `${counted(operator.late_rows, "rows")} dropped`],
    ];
    if (operator.rows_without_time) pairs.push(["Without a time", `${counted(operator.rows_without_time, "rows")} dropped`]);
    if (operator.next_window_end_us !== null) pairs.push(["Next window ends", clock.instant(operator.next_window_end_us)]);
    section.append(element("h3", "", `Window operator ${operator.number}`), terms(pairs));
  }
  if (batches.count) {
    const phases = Object.entries(batches.phases).sort((a, b) => b[1] - a[1]);
    section.append(element("h3", "", "Micro-batches"), terms([
      ["Busy", `${seconds(batches.seconds)} of ${seconds(query.analysis.seconds)}`],
      ["Each", `median ${seconds(batches.median_seconds)}, slowest ${seconds(batches.slowest_seconds)}`],
      ...phases.map(([name, spent]) => [name[0].toUpperCase() + name.slice(1), seconds(spent)]),
      ["Writing the state", `${seconds(batches.state_commit_seconds)} in tasks`],
    ]));
  }
  return [section];
}

function textSection(query) {
  const fold = element("details", "section");
  fold.append(element("summary", "", "As text"), element("pre", "", query.text));
  if (!query.trees) fold.open = true;
  return fold;
}

function article(query, index) {
  const made = element("article");
  made.id = `query-${index + 1}`;
  const statement = element("pre", "statement", query.statement.trim());
  made.append(statement, ...facts(query));
  if (query.trees) made.append(planSection(query), ...windowSection(query), ...ruleSection(query), ...streamSection(query), ...stageSection(query));
  made.append(textSection(query));
  return made;
}

(function page() {
  const explained = JSON.parse(document.getElementById("document").textContent);
  const main = document.getElementById("page");
  const ran = explained.queries.some((query) => query.analysis);
  main.append(element("h1", "", ran ? "sqlwin · plan and figures of a run" : "sqlwin · plan"));
  if (explained.queries.length > 1) {
    const nav = element("nav");
    const entries = element("ol");
    explained.queries.forEach((query, i) => {
      const entry = element("li");
      const link = element("a", "", query.statement.trim().replace(/\s+/g, " ").slice(0, 90));
      link.href = `#query-${i + 1}`;
      entry.append(link);
      entries.append(entry);
    });
    nav.append(entries);
    main.append(nav);
  }
  // placed first, drawn then: a timeline needs its width
  explained.queries.forEach((query, i) => main.append(article(query, i)));
  const [first] = explained.queries;
  if (first) document.title = `Plan: ${first.statement.trim().replace(/\s+/g, " ").slice(0, 60)}`;
})();
