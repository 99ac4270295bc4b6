"use strict";

/* Windows and slices by arithmetic, as runtime/windows does it; times are microseconds, and every
   interval is [start, end). */
const windows = (() => {
  const mod = (a, n) => ((a % n) + n) % n;

  function tumble(p) {
    const offset = p.offset || 0;
    const of = (t) => {
      const start = t - mod(t - offset, p.size);
      return [start, start + p.size];
    };
    return { sliceOf: of, windowsOf: (t) => [of(t)], width: p.size, stride: p.size, longest: p.size };
  }

  function hop(p) {
    const offset = p.offset || 0;
    return {
      // slices are cut where windows start and where they end
      sliceOf(t) {
        const sinceStart = mod(t - offset, p.slide);
        const sinceEnd = mod(t - offset - p.size, p.slide);
        return [
          t - Math.min(sinceStart, sinceEnd),
          t + Math.min(p.slide - sinceStart, p.slide - sinceEnd),
        ];
      },
      windowsOf(t) {
        const found = [];
        for (let s = t - mod(t - offset, p.slide); s > t - p.size; s -= p.slide) {
          found.unshift([s, s + p.size]);
        }
        return found;
      },
      width: p.size % p.slide ? Math.max(p.size % p.slide, p.slide - (p.size % p.slide)) : p.slide,
      stride: p.slide,
      longest: p.size,
    };
  }

  function cumulate(p) {
    const offset = p.offset || 0;
    const base = (t) => t - mod(t - offset, p.max_size);
    return {
      sliceOf(t) {
        const start = base(t) + Math.floor((t - base(t)) / p.step) * p.step;
        return [start, start + p.step];
      },
      windowsOf(t) {
        const start = base(t);
        const found = [];
        let end = start + (Math.floor((t - start) / p.step) + 1) * p.step;
        for (; end <= start + p.max_size; end += p.step) found.push([start, end]);
        return found;
      },
      width: p.step,
      stride: p.step,
      longest: p.max_size,
    };
  }

  /* Sessions of rows at `times`: rows no further apart than the gap are together. */
  function sessions(times, gap) {
    const found = [];
    for (const t of [...times].sort((a, b) => a - b)) {
      const last = found[found.length - 1];
      if (last && t <= last[1]) last[1] = t + gap;
      else found.push([t, t + gap]);
    }
    return found;
  }

  const kinds = { TUMBLE: tumble, HOP: hop, CUMULATE: cumulate };
  const needed = { TUMBLE: ["size"], HOP: ["size", "slide"], CUMULATE: ["max_size", "step"] };

  function of(kind, parameters) {
    return kinds[kind] && needed[kind].every((p) => parameters[p] > 0) ? kinds[kind](parameters) : null;
  }

  /* Windows of months: the same arithmetic on numbers of months, which `shift` moves in time. */
  function monthly(kind, months, shift) {
    const inner = of(kind, months);
    if (!inner) return null;
    const time = (month) => Date.UTC(1970, month, 1) * 1000 + shift;
    const month = (t) => {
      const date = new Date(Math.floor((t - shift) / 1000));
      return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
    };
    const mean = 30.436875 * 86400e6;
    return {
      sliceOf: (t) => inner.sliceOf(month(t)).map(time),
      windowsOf: (t) => inner.windowsOf(month(t)).map((each) => each.map(time)),
      width: inner.width * mean,
      stride: inner.stride * mean,
      longest: inner.longest * mean,
    };
  }

  /* Windows that grow by a time, such as days, through months; the last slice ends with the month. */
  function growing(size, step, first, shift) {
    const largest = monthly("TUMBLE", { size, offset: first }, shift);
    if (!largest || !(step > 0)) return null;
    return {
      sliceOf(t) {
        const [begin, last] = largest.windowsOf(t)[0];
        const start = begin + Math.floor((t - begin) / step) * step;
        return [start, Math.min(start + step, last)];
      },
      windowsOf(t) {
        const [begin, last] = largest.windowsOf(t)[0];
        const found = [];
        for (let n = Math.floor((t - begin) / step) + 1; begin + (n - 1) * step < last; n += 1) {
          found.push([begin, Math.min(begin + n * step, last)]);
        }
        return found;
      },
      width: step,
      stride: step,
      longest: largest.longest,
    };
  }

  /* The slices and windows of a window of the document; null if there is no picture of it. */
  function ofUse(use) {
    const months = use.parameters_months;
    if (use.kind === "CUMULATE" && months.max_size && use.parameters_us.step) {
      return growing(months.max_size, use.parameters_us.step, months.offset || 0, use.parameters_us.offset || 0);
    }
    return Object.keys(months).length ? monthly(use.kind, months, use.parameters_us.offset || 0)
      : of(use.kind, use.parameters_us);
  }

  return { of, ofUse, sessions, mod };
})();

/* Times and durations as text. */
const clock = (() => {
  const SECOND = 1e6, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500].flatMap((n) => [n, n * 1e3])
    .concat([1, 2, 5, 10, 15, 30].flatMap((n) => [n * SECOND, n * MINUTE]))
    .concat([1, 2, 3, 6, 12].map((n) => n * HOUR))
    .concat([1, 2, 7, 14, 28, 56, 112, 364].map((n) => n * DAY))
    .sort((a, b) => a - b);

  const two = (n) => String(n).padStart(2, "0");

  /* `grain` is the smallest difference that matters. */
  function time(t, grain) {
    const date = new Date(Math.floor(t / 1000));
    const day = `${MONTHS[date.getUTCMonth()]} ${date.getUTCDate()}`;
    if (grain >= DAY && t % DAY === 0) return day;
    let text = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
    if (grain < MINUTE) text += `:${two(date.getUTCSeconds())}`;
    if (grain < SECOND) {
      const rest = String(windows.mod(t, SECOND)).padStart(6, "0");
      text += `.${grain < 1000 ? rest : rest.slice(0, 3)}`;
    }
    return grain >= 6 * HOUR ? `${day} ${text}` : text;
  }

  const date = (t) => new Date(Math.floor(t / 1000));
  const month = (t) => `${MONTHS[date(t).getUTCMonth()]} ${date(t).getUTCFullYear()}`;
  const year = (t) => date(t).getUTCFullYear();

  function duration(us) {
    const parts = [];
    let rest = Math.abs(us);
    const units = [["d", DAY], ["h", HOUR], ["min", MINUTE], ["s", SECOND], ["ms", 1000], ["us", 1]];
    for (const [name, width] of units) {
      const n = Math.floor(rest / width);
      if (n) parts.push(`${n} ${name}`);
      rest -= n * width;
    }
    return (us < 0 ? "-" : "") + (parts.slice(0, 2).join(" ") || "0");
  }

  const step = (least) => STEPS.find((s) => s >= least) || STEPS[STEPS.length - 1];
  /* A time of today, 2026-01-31 08:05:00. */
  const instant = (t) => date(t).toISOString().replace("T", " ").replace(/(\.000)?Z$/, "");

  return { time, duration, step, month, year, instant, DAY };
})();

/* Draws the windows of one window function over its slices. */
function timeline(host, use) {
  const LANE = 11, GAP = 3, SLICES = 18, AXIS = 22, MAX_LANES = 26, MAX_SLICES = 56;
  // about as wide as a digit of the axis
  const LETTER = 6.4;
  const START = Date.UTC(2024, 0, 1) * 1000;
  const gap = use.kind === "SESSION" ? use.parameters_us.gap : 0;
  const grid = gap ? null : windows.ofUse(use);
  if (!gap && !grid) return null;
  const isMonthly = Object.keys(use.parameters_months).length > 0;
  const isSliced = use.copies === null;

  // Rows of the picture for sessions, in gaps
  const SAMPLE = [0.3, 0.9, 1.5, 3.4, 4.1, 6.4, 6.9, 7.5, 9.6].map((n) => START + n * gap);
  let from, to, low, high, grain;
  if (gap) {
    [from, to, grain] = [START, START + 12 * gap, gap / 20];
    [low, high] = [from, to - gap];
  } else {
    const isZoomed = grid.longest / grid.width > MAX_SLICES / 2;
    grain = grid.width / 20;
    const base = grid.windowsOf(START + grid.longest * 3)[0] || grid.sliceOf(START);
    if (isZoomed) {
      low = base[1] - 12 * grid.width;
      high = low + 12 * grid.width;
      from = low - 16 * grid.width;
      to = high + 16 * grid.width;
    } else if (use.kind === "HOP" && grid.longest > grid.stride) {
      low = base[1];
      high = low + Math.max(4, Math.min(8, Math.round(18 * grid.stride / grid.longest))) * grid.stride;
      from = low - grid.longest - grid.stride / 4;
      to = high + grid.longest + grid.stride / 4;
    } else {
      const n = Math.max(2, Math.ceil(8 * grid.width / grid.longest));
      [from, to] = [base[0] - grid.width / 6, base[0] + n * Math.max(grid.longest, grid.stride)];
      to += grid.width / 6;
      [low, high] = [base[0], to - grid.width / 3];
    }
  }
  const unit = grain <= 1000 ? 1 : grain <= 1e6 ? 1000 : 1e6;
  const snap = (t) => Math.round(t / unit) * unit;
  let chosen = snap(low + (high - low) * 0.38);
  let width = 800;

  const box = element("div", "chosen");
  const name = `row-${Math.random().toString(36).slice(2)}`;
  const label = element("label", "", "A row at");
  label.htmlFor = name;
  const slider = element("input");
  Object.assign(slider, { id: name, type: "range", min: 0, max: 1000 });
  const output = element("output");
  output.htmlFor = name;
  box.append(slider, label, output);
  const svg = shape("svg", { class: "timeline", role: "img", tabindex: "-1" });
  const answer = element("p", "answer");
  answer.setAttribute("aria-live", "polite");
  host.append(svg, box, answer);

  const x = (t) => ((t - from) / (to - from)) * width;
  const between = ([a, b]) => `[${show(a)}, ${show(b)})`;
  // what decides how finely the ends of slices and windows are shown
  const widths = gap ? [gap / 20] : [grid.width, grid.stride, use.parameters_us.offset || 0];
  const isDaily = isMonthly ? !windows.mod(use.parameters_us.offset || 0, clock.DAY) : widths.every((w) => w % clock.DAY === 0);
  const finest = Math.min(...[60e6, 1e6, 1e3, 1].filter((g) => g === 1 || widths.every((w) => w % g === 0)).slice(0, 1));
  const isLong = Math.max(to - from, grid ? 2 * grid.longest : 0) > 1.5 * clock.DAY;

  // days of two years may read alike
  const isFar = grid && grid.longest > 300 * clock.DAY;

  /* A time, with the day where the picture spans several. */
  function show(t) {
    if (isDaily) return clock.time(t, clock.DAY) + (isFar ? ` ${clock.year(t)}` : "");
    return isLong ? `${clock.time(t - windows.mod(t, clock.DAY), clock.DAY)} ${clock.time(t, finest)}`
      : clock.time(t, finest);
  }

  function showRow(t) {
    const day = isLong ? `${clock.time(t - windows.mod(t, clock.DAY), clock.DAY)} ` : "";
    return day + clock.time(t, Math.min(grain * 4, 60e6));
  }

  function slicesInView() {
    const found = [];
    for (let t = from; t < to; t = found[found.length - 1][1]) found.push(grid.sliceOf(t));
    return found;
  }

  function windowsInView() {
    const found = new Map();
    for (const slice of slicesInView()) {
      for (const each of grid.windowsOf(slice[0])) found.set(each.join(), each);
    }
    return [...found.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  }

  /* Windows in lanes, such that those of a lane do not overlap. */
  function lanes(all) {
    const ends = [];
    return all.map((each) => {
      let lane = ends.findIndex((end) => end <= each[0]);
      if (lane < 0) lane = ends.length;
      ends[lane] = each[1];
      return { window: each, lane };
    });
  }

  function placed() {
    if (gap) return { bars: lanes(windows.sessions([...SAMPLE, chosen], gap)), more: 0 };
    const all = windowsInView();
    const isStaircase = use.kind === "HOP" && grid.longest > grid.stride;
    // each a step lower than the one before: in the lane of one that has ended, the steps would
    // begin again at the top
    const bars = isStaircase ? all.map((each, lane) => ({ window: each, lane })) : lanes(all);
    if (Math.max(0, ...bars.map((b) => b.lane)) < MAX_LANES) return { bars, more: 0 };
    // too many to draw: those of the chosen row, the oldest and the newest
    const own = grid.windowsOf(chosen);
    const half = MAX_LANES / 2;
    const shown = own.length <= 2 * half ? own : [...own.slice(0, half), ...own.slice(-half)];
    const after = own.length > 2 * half ? half : shown.length;
    const found = shown.map((each, i) => ({ window: each, lane: i < after ? i : i + 1.4 }));
    return { bars: found, more: own.length - shown.length, gapAt: after };
  }

  /* Places on the axis and their texts, as close as there is room for. */
  function ticks(room = 84) {
    const tick = clock.step(((to - from) * room) / width);
    const found = [];
    for (let t = Math.ceil((from - START) / tick) * tick + START; t < to; t += tick) {
      const isDay = tick >= clock.DAY || (to - from > clock.DAY && t % clock.DAY === 0);
      found.push([t, clock.time(t, isDay ? clock.DAY : tick % 60e6 ? finest : 60e6)]);
    }
    const needed = Math.max(0, ...found.map(([, words]) => words.length)) * LETTER + 14;
    return needed > room ? ticks(needed) : found;
  }

  function months() {
    const room = ((to - from) * 84) / width / (30.4 * clock.DAY);
    const step = [1, 2, 3, 6, 12, 24, 60, 120].find((n) => n >= room) || 240;
    const found = [];
    for (let n = -1200; n < 4800; n += step) {
      const t = Date.UTC(2024, n, 1) * 1000;
      if (t >= from && t < to) found.push([t, clock.month(t)]);
    }
    return found;
  }

  function draw() {
    width = Math.max(280, host.clientWidth || 800);
    svg.replaceChildren();
    const { bars, more, gapAt } = placed();
    const inside = ([a, b]) => a <= chosen && chosen < b;
    const nLanes = Math.max(1, ...bars.map((b) => b.lane + 1));
    const top = AXIS + (gap ? 14 : SLICES) + 10;
    const height = top + nLanes * (LANE + GAP) + 6;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    for (const [t, words] of isMonthly && to - from > 75 * clock.DAY ? months() : ticks()) {
      svg.append(shape("line", { class: "tick", x1: x(t), x2: x(t), y1: AXIS - 4, y2: height }));
      const half = (words.length * LETTER) / 2;
      if (x(t) < half || x(t) > width - half) continue; // there is room for the line alone
      const text = shape("text", { x: x(t), y: 12, "text-anchor": "middle" });
      text.textContent = words;
      svg.append(text);
    }
    const own = gap ? null : grid.sliceOf(chosen);
    if (gap) {
      for (const t of SAMPLE) {
        svg.append(shape("circle", { class: "event", cx: x(t), cy: AXIS + 7, r: 3.5 }));
      }
    } else if (isSliced) {
      for (const [i, slice] of slicesInView().entries()) {
        const [a, b] = [Math.max(0, x(slice[0])), Math.min(width, x(slice[1]))];
        const turn = isMonthly ? i : Math.floor((slice[0] - START) / grid.stride);
        const isOdd = windows.mod(turn, 2) === 1;
        const is = slice[0] === own[0] ? "slice on" : isOdd ? "slice odd" : "slice";
        const rect = shape("rect", {
          class: is, x: a, y: AXIS, width: Math.max(0.5, b - a), height: SLICES, rx: 2,
        });
        rect.dataset.span = slice.join();
        rect.dataset.tip = `slice ${between(slice)}, in ${count(sharing(slice).length, "window")}`;
        svg.append(rect);
      }
    }
    for (const { window: each, lane } of bars) {
      const [a, b] = [Math.max(0, x(each[0])), Math.min(width, x(each[1]))];
      if (b <= a) continue;
      const rect = shape("rect", {
        class: inside(each) ? "window-bar on" : "window-bar",
        x: a + 0.5, y: top + lane * (LANE + GAP), width: Math.max(1, b - a - 1), height: LANE, rx: 2.5,
      });
      rect.dataset.window = each.join();
      const n = gap || !isSliced ? 0 : sliceCount(each);
      rect.dataset.tip = `window ${between(each)}` + (n > 1 ? `, from ${n.toLocaleString("en")} slices` : "");
      svg.append(rect);
    }
    if (more) {
      const text = shape("text", { x: width / 2, y: top + (gapAt + 0.9) * (LANE + GAP), "text-anchor": "middle" });
      text.textContent = `… and ${more.toLocaleString("en")} windows between them …`;
      svg.append(text);
    }
    svg.append(shape("line", { class: "row", x1: x(chosen), x2: x(chosen), y1: AXIS - 3, y2: height - 4 }));
    svg.append(shape("circle", { class: "row-head", cx: x(chosen), cy: AXIS - 4, r: 4 }));
    slider.value = Math.round(((chosen - from) / (to - from)) * 1000);
    slider.setAttribute("aria-valuetext", showRow(chosen));
    output.textContent = showRow(chosen);
    answer.innerHTML = described();
    svg.setAttribute("aria-label", answer.textContent);
  }

  function sliceCount([start, end]) {
    if (!isMonthly) return Math.round(((end - start) / use.slice_widths_us.reduce((a, b) => a + b, 0)) * use.slice_widths_us.length);
    let n = 0;
    for (let t = start; t < end; t = grid.sliceOf(t)[1]) n += 1;
    return n;
  }

  const sharing = (slice) => grid.windowsOf(slice[0]);

  /* Where the chosen row goes, in words. */
  function described() {
    if (gap) {
      const all = windows.sessions([...SAMPLE, chosen], gap);
      const own = all.find(([a, b]) => a <= chosen && chosen < b);
      const merged = windows.sessions(SAMPLE, gap).filter((s) => s[0] < own[1] && own[0] < s[1]).length;
      const joined = merged === 0 ? "It begins a new session"
        : merged === 1 ? "It joins an existing session" : `It merges ${merged} sessions into one`;
      return `${joined}: <b>${between(own)}</b>. A session ends after ${clock.duration(gap)} without a row. `
        + "The dots are sample rows.";
    }
    const own = grid.windowsOf(chosen);
    const slice = grid.sliceOf(chosen);
    if (!own.length) return `It is between two windows and therefore <b>in no window</b>.`;
    const ends = own.length === 1 ? `the window <b>${between(own[0])}</b>`
      : `<b>${count(own.length, "window")}</b>, from ${between(own[0])} to ${between(own[own.length - 1])}`;
    if (!isSliced) return own.length === 1 ? `It goes into ${ends}.` : `It is copied into ${ends}.`;
    if (own.length === 1 && use.kind === "TUMBLE") {
      return `It goes into ${ends}, which is one slice.`;
    }
    return `It is aggregated once, into the slice <b>${between(slice)}</b>. That slice belongs to ${ends}.`;
  }

  function choose(t) {
    chosen = snap(Math.min(Math.max(t, low), high - unit));
    draw();
  }

  slider.addEventListener("input", () => choose(from + (slider.value / 1000) * (to - from)));
  svg.addEventListener("click", (event) => {
    const bounds = svg.getBoundingClientRect();
    choose(from + ((event.clientX - bounds.left) / bounds.width) * (to - from));
  });
  svg.addEventListener("pointermove", (event) => {
    const target = event.target;
    for (const each of svg.querySelectorAll(".hot")) each.classList.remove("hot");
    if (!target.dataset || !target.dataset.tip) return tip(null);
    target.classList.add("hot");
    light(target);
    tip(target.dataset.tip, event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", () => {
    for (const each of svg.querySelectorAll(".hot")) each.classList.remove("hot");
    tip(null);
  });

  /* The windows of a slice, or the slices of a window. */
  function light(target) {
    const { span, window: bar } = target.dataset;
    const [a, b] = (span || bar).split(",").map(Number);
    for (const each of svg.querySelectorAll(span ? "[data-window]" : "[data-span]")) {
      const [c, d] = (each.dataset.window || each.dataset.span).split(",").map(Number);
      if (span ? c <= a && b <= d : a <= c && d <= b) each.classList.add("hot");
    }
  }

  draw();
  new ResizeObserver(() => draw()).observe(host);
  return { choose, grid };
}
