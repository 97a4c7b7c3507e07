// A notebook: its cells run one after the other in a worker, so that the page can be read and scrolled meanwhile
const state = document.querySelector("#state");
const cells = [...document.querySelectorAll(".cell")];
const waiting = []; // cells to run; the first is running
let worker, ready;

function start() {
  worker?.terminate();
  ready = false;
  waiting.length = 0;
  state.textContent = "Loading Python; you can start reading.";
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.ready) {
      ready = true;
      state.textContent = `${data.ready} is ready. Shift+Enter runs a cell.`;
    } else if (data.failed) {
      state.textContent = `Python could not be loaded: ${data.failed}`;
      return;
    } else {
      const { cell, since } = waiting.shift();
      show(cell, data);
      cell.ariaBusy = "false";
      state.textContent = `Ran in ${((performance.now() - since) / 1000).toFixed(1)} s.`;
    }
    next();
  };
}

function next() {
  if (!ready || !waiting.length || waiting[0].since) return;
  waiting[0].since = performance.now();
  state.textContent = "Running…";
  worker.postMessage(waiting[0].cell.querySelector("textarea").value);
}

function run(cell) {
  if (waiting.some((each) => each.cell === cell && !each.since)) return;
  cell.ariaBusy = "true";
  waiting.push({ cell });
  next();
}

// What a cell has printed and shown. Nothing of it is taken for the page's own HTML: pages are shown in a sandbox
function show(cell, { outputs, files }) {
  const place = cell.querySelector(".output");
  place.replaceChildren(
    ...outputs.map(({ output_type: type, name, text, data }) => {
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
        return frame;
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
fitAll();

for (const cell of cells) {
  const text = cell.querySelector("textarea");
  cell.querySelector("button").addEventListener("click", () => run(cell));
  text.addEventListener("input", () => fit(text));
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (event.shiftKey || event.ctrlKey || event.metaKey) {
      run(cell);
      cells[cells.indexOf(cell) + 1]?.querySelector("textarea").focus();
    } else {
      const line = text.value.slice(0, text.selectionStart).split("\n").at(-1);
      const indent = line.match(/^ */)[0] + (line.trimEnd().endsWith(":") ? "    " : "");
      text.setRangeText(`\n${indent}`, text.selectionStart, text.selectionEnd, "end");
      text.dispatchEvent(new Event("input"));
    }
  });
}
document.querySelector("#all").addEventListener("click", () => cells.forEach(run));
document.querySelector("#restart").addEventListener("click", start);
start();
