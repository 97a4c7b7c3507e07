"use strict";
// What all pages share: making elements, numbers as text, and the controls that move through a page.

const at = id => document.getElementById(id);
const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function html(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// At most four significant digits, fewer where they would need more characters than there is room for.
function text(x, room = 12) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x < 0 ? "−inf" : "inf";
  let shown;
  for (let digits = 4; digits; digits--) {
    const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
    shown = exponent < -4 || exponent >= digits ? `${+mantissa}e${+exponent}` : `${+x.toPrecision(digits)}`;
    shown = shown.replaceAll("-", "−");
    if (shown.length <= room) return shown;
  }
  const [digit, exponent] = x.toExponential(0).replaceAll("-", "−").split("e");
  const short = `${digit}e${exponent.replace("+", "")}`;
  return short.length < shown.length ? short : shown;
}

// A cell of a table: text, or an element; orange if it is a number below 0.
function fill(cell, content) {
  if (typeof content === "string") cell.textContent = content;
  else cell.replaceChildren(content);
  cell.className = typeof content === "string" && content.startsWith("−") ? "minus" : "";
  return cell;
}

const tableRow = cells => html("tr", {}, ...cells.map(cell => fill(html("td", {}), cell)));

const table = (caption, heads, rows) =>
  html(
    "table",
    {},
    html("caption", { textContent: caption }),
    html("thead", {}, html("tr", {}, ...heads.map(head => html("th", { textContent: head, scope: "col" })))),
    html("tbody", {}, ...rows.map(tableRow)),
  );

// Pressing an element with the pointer, or with Enter or space, calls `press` with whether it was a key.
function onPress(part, press) {
  part.setAttribute("role", "button");
  part.setAttribute("tabindex", 0);
  part.onclick = () => press(false);
  part.onkeydown = event => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      press(true);
    }
  };
}

// The controls: buttons, slider, keys, Play and the address lead to a position from 0 to `last`. `show` draws it and
// returns it in words; `name` is what the address calls it; Play waits so many milliseconds at each.
function connectControls({ last, start = 0, name, wait, show }) {
  let position, timer = 0;
  const slider = at("slider");
  const address = () => new RegExp(`^#${name}=(\\d+)$`).exec(location.hash)?.[1];
  const move = to => {
    position = Math.min(Math.max(+to, 0), last);
    const words = show(position);
    slider.value = position;
    slider.setAttribute("aria-valuetext", words);
    at("status").textContent = words;
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    at("play").textContent = "Play";
    try {
      history.replaceState(null, "", `#${name}=${position}`);
    } catch {
      /* a page in a frame may have no address */
    }
  };
  const go = to => {
    move(to);
    stop();
  };
  const play = () => {
    if (timer) return stop();
    if (position === last) move(0);
    at("play").textContent = "Pause";
    const slow = matchMedia("(prefers-reduced-motion: reduce)").matches;
    timer = setInterval(() => {
      move(position + 1);
      if (position === last) stop();
    }, slow ? Math.max(wait, 1000) : wait);
  };
  const moves = {
    first: () => go(0), back: () => go(position - 1), play, forward: () => go(position + 1), last: () => go(last),
  };
  const keys = { Home: "first", ArrowLeft: "back", " ": "play", ArrowRight: "forward", End: "last" };

  slider.max = last;
  slider.oninput = () => go(slider.value);
  for (const id in moves) at(id).onclick = moves[id];
  document.addEventListener("keydown", event => {
    const isWithin = selector => event.target.closest?.(selector);
    if (!keys[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    if (isWithin("input,select,textarea,.wide")) return; // which have their own use for these keys
    if (event.key === " " && isWithin("button,summary,[role=button]")) return;
    event.preventDefault();
    moves[keys[event.key]]();
  });
  window.addEventListener("hashchange", () => {
    if (address() && +address() !== position) go(address());
  });
  move(address() ?? start);
  return go;
}
