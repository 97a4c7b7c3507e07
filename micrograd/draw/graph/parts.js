// What the page of a graph is made of: tables, elements that can be pressed, and the controls that move through its steps.

// A cell of a table: text, or an element; orange if it is a number below 0.
function fill(cell, content) {
  if (typeof content === "string") cell.textContent = content;
  else cell.replaceChildren(content);
  cell.className = typeof content === "string" && content.startsWith("−") ? "minus" : "";
  return cell;
}

const tableRow = cells => html("tr", {}, ...cells.map(cell => fill(html("td", {}), cell)));

const table = (caption, heads) =>
  html(
    "table",
    {},
    html("caption", { textContent: caption }),
    html("thead", {}, html("tr", {}, ...heads.map(head => html("th", { textContent: head, scope: "col" })))),
    html("tbody", {}),
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

// The controls: buttons, slider, keys, Play and the address lead to a step from 0 to `last`. `show` draws it and returns
// it in words.
function connectControls(last, show) {
  let current, timer = 0;
  const slider = at("slider");
  const address = () => /^#step=(\d+)$/.exec(location.hash)?.[1];
  const move = to => {
    current = Math.min(Math.max(+to, 0), last);
    const words = show(current);
    slider.value = current;
    slider.setAttribute("aria-valuetext", words);
    at("status").textContent = words;
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    at("play").textContent = "Play";
    try {
      history.replaceState(null, "", `#step=${current}`);
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
    if (current === last) move(0);
    at("play").textContent = "Pause";
    timer = setInterval(() => {
      move(current + 1);
      if (current === last) stop();
    }, 900);
  };
  const moves = { first: () => go(0), back: () => go(current - 1), play, forward: () => go(current + 1), last: () => go(last) };

  slider.max = last;
  slider.oninput = () => go(slider.value);
  for (const id in moves) at(id).onclick = moves[id];
  connectKeys({ Home: moves.first, ArrowLeft: moves.back, " ": play, ArrowRight: moves.forward, End: moves.last });
  window.addEventListener("hashchange", () => {
    if (address() && +address() !== current) go(address());
  });
  move(address() ?? 0);
  return go;
}
