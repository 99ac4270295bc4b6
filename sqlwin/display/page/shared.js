/* Small helpers that every page has. */

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

function shape(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function tip(text, x, y) {
  const box = document.getElementById("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(6, Math.min(x + 12, innerWidth - width - 6))}px`;
  box.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 16}px`;
}

const number = (n) => n.toLocaleString("en");
const count = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
const counted = (n, words) => `${number(n)} ${n === 1 ? words.slice(0, -1) : words}`;

function bytes(n) {
  if (n < 1024) return `${number(n)} B`;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    n /= 1024;
    if (n < 1024 || unit === "TiB") return `${n.toFixed(1)} ${unit}`;
  }
}

function seconds(s) {
  if (s < 0.9995) return `${Math.round(s * 1000)} ms`;
  if (s < 59.995) return `${s.toFixed(2)} s`;
  const whole = Math.round(s);
  const two = (n) => String(n % 60).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${two(whole)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${two(minutes)} min` : `${number(Math.floor(hours / 24))} d ${hours % 24} h`;
}

function terms(pairs) {
  const made = element("dl", "terms");
  for (const [term, value] of pairs) made.append(element("dt", "", term), element("dd", "", value));
  return made;
}

function wide(table) {
  const box = element("div", "wide");
  box.append(table);
  return box;
}
