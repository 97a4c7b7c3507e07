"use strict";
// What all pages share: making elements, and numbers as text.

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

// Lets keys act wherever the reader is, unless that place has a use of its own for them.
function connectKeys(actions) {
  document.addEventListener("keydown", event => {
    const isWithin = selector => event.target.closest?.(selector);
    if (!actions[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    if (isWithin("input,select,textarea,canvas,.wide") || (event.key === " " && isWithin("button,summary,[role=button]"))) return;
    event.preventDefault();
    actions[event.key]();
  });
}

// A count, such as 13,203.
const counted = n => n.toLocaleString("en-US");

// At most four significant digits, fewer where they would need more characters than there is room for beside a minus.
function text(x, room = 12) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x < 0 ? "−inf" : "inf";
  let shown;
  for (let digits = 4; digits; digits--) {
    const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
    shown = exponent < -4 || exponent >= digits ? `${+mantissa}e${+exponent}` : `${+x.toPrecision(digits)}`;
    shown = shown.replaceAll("-", "−");
    if (shown.replace(/^−/, "").length <= room) return shown;
  }
  const [digit, exponent] = x.toExponential(0).replaceAll("-", "−").split("e");
  const short = `${digit}e${exponent.replace("+", "")}`;
  return short.length < shown.length ? short : shown;
}
