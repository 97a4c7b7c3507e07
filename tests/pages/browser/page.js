// A notebook: its cells run one after the other in a worker, so that the page can be read and scrolled meanwhile
const state = document.querySelector("#state");
const cells = [...document.querySelectorAll(".cell")];
const notebook = JSON.parse(document.querySelector("#notebook").textContent);
const sources = notebook.cells.filter(({ cell_type: type }) => type === "code"); // of the cells, in order
const { name } = document.querySelector("#notebook").dataset;
const waiting = []; // cells to run; the first is running
let worker, ready, began; // `began`: when the first of the waiting cells began

function start() {
  worker?.terminate();
  ready = began = false;
  for (const { cell } of waiting.splice(0)) cell.ariaBusy = "false";
  state.textContent = "Loading Python; you can start reading.";
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.ready) {
      ready = true;
      const keys = matchMedia("(hover: none)").matches ? "" : " Shift+Enter runs a cell; Escape, then Tab leaves it.";
      state.textContent = `${data.ready} is ready.${keys}`;
    } else if (data.failed) {
      state.textContent = `Python could not be loaded: ${data.failed}`;
      return;
    } else {
      const { cell } = waiting.shift();
      show(cell, data);
      cell.ariaBusy = "false";
      state.textContent = `Ran in ${((performance.now() - began) / 1000).toFixed(1)} s.`;
      began = waiting.length && began;
    }
    next();
  };
}

function next() {
  if (!ready || !waiting.length || waiting[0].runs) return;
  waiting[0].runs = true;
  began ||= performance.now();
  state.textContent = "Running…";
  worker.postMessage(waiting[0].cell.querySelector("textarea").value);
}

function run(cell) {
  if (waiting.some((each) => each.cell === cell && !each.runs)) return;
  cell.ariaBusy = "true";
  waiting.push({ cell });
  next();
}

// What a cell has printed and shown. Nothing of it is taken for the page's own HTML: pages are shown in a sandbox
function show(cell, { outputs, files }) {
  const place = cell.querySelector(".output");
  place.replaceChildren(
    ...outputs.flatMap(({ output_type: type, name, text, data }) => {
      const svg = data?.["image/svg+xml"];
      const html = data?.["text/html"];
      const picture = svg ? `data:image/svg+xml,${encodeURIComponent(svg)}` : html?.match(/<img [^>]*src="(data:image[^"]+)"/)?.[1];
      if (picture) {
        const image = document.createElement("img");
        image.src = picture;
        image.alt = data["text/plain"];
        return image;
      }
      const path = html?.match(/<iframe src="([^"]+)"/)?.[1];
      if (path && path in files) {
        const frame = document.createElement("iframe");
        frame.sandbox = "allow-scripts allow-downloads";
        frame.srcdoc = files[path];
        frame.title = path;
        frame.height = html.match(/ height="(\d+)"/)?.[1] ?? 640;
        return [frame, downloadLink(path, files[path], `Download ${path}`)];
      }
      const block = document.createElement("pre");
      block.className = type === "error" ? "error" : name ?? "";
      block.textContent = text ?? data["text/plain"];
      return block;
    }),
  );
}

// As high as its lines, some of which wrap
function fit(text) {
  text.style.height = 0;
  text.style.height = `${text.scrollHeight + 2}px`;
}
const fitAll = () => document.querySelectorAll("textarea").forEach(fit);
window.addEventListener("resize", fitAll);

// The browser keeps what a student writes, in case the page is closed or Python crashes
const key = (i) => `${name} ${sources[i].id}`;
function read() {
  cells.forEach((cell, i) => {
    const text = cell.querySelector("textarea");
    text.value = localStorage.getItem(key(i)) ?? text.defaultValue;
  });
  fitAll();
}

function startOver() {
  if (!confirm("Discard everything you have written on this page?")) return;
  cells.forEach((cell, i) => {
    localStorage.removeItem(key(i));
    cell.querySelector(".output").replaceChildren();
  });
  read();
  start();
}

// A link that saves a file, such as a page that the student wants to keep or to see full screen
function downloadLink(name, content, textContent = "") {
  const href = URL.createObjectURL(new Blob([content]));
  return Object.assign(document.createElement("a"), { href, download: name, textContent });
}

function download() {
  cells.forEach((cell, i) => (sources[i].source = cell.querySelector("textarea").value));
  downloadLink(name, JSON.stringify(notebook, null, 1)).click();
}

const insert = (words) => document.execCommand("insertText", false, words); // so that it can be undone

// Tab indents at the cursor, or indents the selected lines; Shift+Tab undoes one indent
function indent(text, back) {
  const { selectionStart: start, selectionEnd: end, value } = text;
  if (start === end && !back) return insert("    ");
  const from = value.lastIndexOf("\n", start - 1) + 1;
  text.setSelectionRange(from, end);
  insert(value.slice(from, end).replace(/^ {0,4}/gm, (spaces) => (back ? "" : `    ${spaces}`)));
  if (start < end) text.setSelectionRange(from, text.selectionEnd);
}

cells.forEach((cell, i) => {
  const text = cell.querySelector("textarea");
  let escaped = false;
  cell.querySelector("button").addEventListener("click", () => run(cell));
  text.addEventListener("input", () => {
    fit(text);
    localStorage.setItem(key(i), text.value);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Shift") return;
    const leaves = escaped || event.ctrlKey || event.altKey || event.metaKey;
    escaped = event.key === "Escape";
    if (event.key === "Tab" && !leaves) {
      event.preventDefault();
      indent(text, event.shiftKey);
    }
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (event.shiftKey || event.ctrlKey || event.metaKey) {
      run(cell);
      cells[cells.indexOf(cell) + 1]?.querySelector("textarea").focus();
    } else {
      const line = text.value.slice(0, text.selectionStart).split("\n").at(-1);
      const spaces = line.match(/^ */)[0] + (line.trimEnd().endsWith(":") ? "    " : "");
      insert(`\n${spaces}`);
    }
  });
});
document.querySelector("#all").addEventListener("click", () => cells.forEach(run));
document.querySelector("#restart").addEventListener("click", start);
document.querySelector("#over").addEventListener("click", startOver);
document.querySelector("#download").hidden = !notebook.nbformat; // solutions and the glossary are no notebooks
document.querySelector("#download").addEventListener("click", download);
start();
fitAll();
read(); // last, since a browser may be told to store nothing
