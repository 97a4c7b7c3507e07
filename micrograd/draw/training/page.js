// Shows one snapshot after the other. All numbers come from Python; this script only draws them.
(async () => {
  const replay = JSON.parse(new TextDecoder().decode(await unpacked("document")));
  for (const kind of ["parameters", "gradients"]) replay[kind] = replay[kind].map((row) => row.map(Number)); // "NaN", too
  const maps = await unpacked("maps");
  const last = replay.epochs.length - 1;
  let now = last, unit = -1;

  // Numbers

  // A number that fits into a card.
  const short = (x) => (Math.abs(x) < 100 ? x.toFixed(2).replace("-0.00", "0.00") : x.toExponential(0).replace("e+", "e"));
  const largest = (numbers) => Math.max(0, ...numbers.filter(Number.isFinite).map(Math.abs));
  const heaviest = largest(replay.parameters.map(largest));

  // Maps

  const layout = replay.maps && { ...replay.maps, lead: replay.maps.fine ** 2, card: replay.maps.coarse ** 2 };
  const stride = layout ? layout.leads * layout.lead + replay.units.length * layout.card : 0;
  const lead = (snapshot, k) => maps.subarray(snapshot * stride + k * layout.lead).subarray(0, layout.lead);
  const card = (snapshot, k) =>
    maps.subarray(snapshot * stride + layout.leads * layout.lead + k * layout.card).subarray(0, layout.card);

  const leads = (snapshot) => Array.from({ length: layout.leads }, (_, k) => lead(snapshot, k));

  // The plane: its axes and examples. The map and the border are added to the group with its id.

  const MARKS = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4H4V4H-4z", "M0-5 5 4H-5z", "M0-5.5 5.5 0 0 5.5-5.5 0z"];
  const [LEFT, TOP, SIDE] = [40, 8, 300];

  function planeOf({ ticks: [across, up], classes }) {
    const right = LEFT + SIDE, bottom = TOP + SIDE, height = bottom + 48 + 18 * Math.floor((classes.length - 1) / 3);
    const x = (share) => (LEFT + SIDE * share).toFixed(1), y = (share) => (bottom - SIDE * share).toFixed(1);
    const words = (x, y, text, anchor = "start") => svg("text", { class: "mg-soft", x, y, "text-anchor": anchor }, text);
    const mark = (kind, x, y, ...inside) => svg("path", {
      class: "mark", style: `--mark:var(--class${kind % 6})`, d: MARKS[kind % 4], transform: `translate(${x} ${y})`,
    }, ...inside);
    const frame = { x: LEFT, y: TOP, width: SIDE, height: SIDE };
    const examples = classes.flatMap(([, , points]) => points);
    return svg("svg", {
      viewBox: `0 0 ${right + 10} ${height}`, width: right + 10, height, role: "img",
      "aria-label": `the model's output, and ${examples.length} examples`,
    },
      svg("clipPath", { id: "within" }, svg("rect", frame)),
      svg("g", { id: "plane", "clip-path": "url(#within)" }),
      svg("rect", { class: "frame", ...frame }),
      ...across.map(([share, text]) => words(x(share), bottom + 16, text, "middle")),
      ...up.map(([share, text]) => words(LEFT - 6, +y(share) + 4, text, "end")),
      words(right - 6, bottom - 6, "x0", "end"),
      words(LEFT + 6, TOP + 16, "x1"),
      ...classes.flatMap(([kind, name, points], i) => {
        const at = LEFT + 110 * (i % 3), below = bottom + 36 + 18 * Math.floor(i / 3);
        const title = (told) => svg("title", {}, `${told}: target ${name}`);
        return [
          ...points.map(([a, b, told]) => mark(kind, x(a), y(b), title(told))),
          mark(kind, at + 6, below - 4),
          svg("text", { x: at + 16, y: below }, `target ${name}`),
        ];
      }));
  }

  // The parts of the page that change

  const network = find(".mg-network"), plane = layout && at("plane-part").appendChild(planeOf(layout)) && at("plane");
  at("plane-part").hidden = at("cards-show").hidden = !layout;
  at("network-part").hidden = at("unit").hidden = !network;
  at("parameters-part").hidden = !replay.names.length;
  at("count").textContent = replay.names.length;
  const numbers = () => [html("td", {}), html("td", {})];
  at("parameters").append(
    ...replay.names.map((name) => html("tr", {}, html("th", { scope: "row" }, name), ...numbers())));
  const edges = all("[data-weight]").map((path) => ({
    path, title: find("title", path), name: find("title", path).textContent.split(":")[0], i: Number(path.dataset.weight),
  }));
  const thickest = Math.max(0, ...edges.map(({ path }) => Number(path.getAttribute("stroke-width"))));
  const cursors = all(".mg-chart").map((chart) => ({ chart, cursor: chart.appendChild(svg("path", { class: "mg-cursor" })) }));
  const cards = all("[data-unit]").map((group, k) => {
    const box = find("rect", group), inside = find(".inside", group);
    const place = Object.fromEntries(["x", "y", "width", "height", "rx"].map((name) => [name, box.getAttribute(name)]));
    const image = layout && svg("image", { ...place, preserveAspectRatio: "none" });
    if (image) {
      box.after(image, svg("rect", { ...place, class: "mg-card over" }));
      network.classList.add("filled");
    }
    group.setAttribute("aria-pressed", "false");
    group.setAttribute("aria-label", replay.units[k][0]);
    onPress(group, () => { unit = unit === k ? -1 : k; show(now); });
    const alert = svg("text", { class: "alert", x: Number(place.x) + Number(place.width) - 9, y: Number(place.y) + 15 });
    group.append(alert);
    return { group, image, inside, alert, weights: replay.units[k][1], bias: replay.units[k][2] };
  });
  if (network) network.setAttribute("role", "group");
  for (const picture of all(".wide svg")) picture.style.minWidth = `${0.75 * picture.viewBox.baseVal.width}px`; // or scroll
  const step = layout && SIDE / (layout.fine - 1), pixel = layout && SIDE / (3 * layout.fine - 1);
  const ground = plane && plane.appendChild(svg("image", {
    x: LEFT - pixel / 2, y: TOP - pixel / 2, width: SIDE + pixel, height: SIDE + pixel,
    preserveAspectRatio: "none",
  }));
  const border = plane && plane.appendChild(svg("path", { class: "border" }));
  const rows = all("#parameters tr"), hint = network ? [...at("unit").children] : [];

  function show(snapshot) {
    now = snapshot;
    const weights = replay.parameters[now], gradients = replay.gradients[now];
    for (const { chart, cursor } of cursors) {
      const { left, right, top, bottom, epochs } = chart.dataset;
      cursor.setAttribute("d", last > 0 ? `M${+left + ((right - left) * replay.epochs[now]) / epochs} ${top}V${bottom}` : "");
    }
    const shown = find("input[value=gradients]:checked") ? gradients : weights;
    const most = shown === weights ? Math.min(heaviest, 3 * largest(weights)) : largest(gradients);
    const near = (path) => path.dataset.from === String(unit) || path.dataset.to === String(unit);
    for (const { path, title, name, i } of edges) {
      const x = shown[i], share = Number.isFinite(x) ? (most ? Math.abs(x) / most : 0) : 1;
      path.setAttribute("class", `mg-edge ${signOf(x)}${near(path) ? " near" : ""}`);
      path.setAttribute("stroke-width", (thickest * Math.max(share, 0.1)).toFixed(2));
      title.textContent = `${name}: ${text(weights[i])}, gradient ${text(gradients[i])}`;
    }
    cards.forEach(({ group, image, inside, alert, weights: own, bias }, k) => {
      if (image) image.setAttribute("href", unitPicture(card(now, k), layout.coarse).toDataURL());
      else if (bias >= 0 && inside && inside.textContent) inside.textContent = short(weights[bias]);
      const mine = [...own, bias].filter((i) => i >= 0);
      const bad = mine.some((i) => !Number.isFinite(gradients[i])) || (now === last && mine.some((i) => replay.bad.includes(i)));
      group.classList.toggle("bad", bad);
      alert.textContent = bad ? "!" : "";
      group.setAttribute("aria-pressed", String(unit === k));
    });
    if (plane) {
      ground.setAttribute("href", planePicture(leads(now), layout.fine).toDataURL());
      const place = ([x, y]) => `${(LEFT + x * step).toFixed(1)} ${(TOP + SIDE - y * step).toFixed(1)}`;
      const lines = leads(now).flatMap((bytes) => strokes(bytes, layout.fine));
      border.setAttribute("d", lines.map(([from, to]) => `M${place(from)}L${place(to)}`).join(""));
    }
    rows.forEach((row, i) => {
      row.cells[1].textContent = text(weights[i]);
      row.cells[2].textContent = text(gradients[i]);
    });
    if (network) details(weights, gradients);
    return replay.captions[now];
  }

  // The numbers of the chosen unit, as a table.
  function details(weights, gradients) {
    const place = at("unit");
    place.replaceChildren(...(unit < 0 ? hint : []));
    network.classList.toggle("chosen", unit >= 0);
    if (unit < 0) return;
    const [name, own, bias, column] = replay.units[unit], heads = ["parameter", "number", "gradient"];
    const row = (parameter, i) => [parameter, text(weights[i]), text(gradients[i])];
    const rows = own.map((i, k) => row(`${name}.w${k}, of ${replay.columns[column - 1][k]}`, i));
    if (bias >= 0) rows.push(row(`${name}.b`, bias));
    place.append(table(`${name}, ${replay.captions[now].split(",")[0]}`, rows.length ? heads : [], rows));
  }

  // The reader's choices

  readColours();
  if (last > 0) {
    const wait = Math.max(60, Math.min(400, 6000 / last));
    const go = connectControls({ last, start: last, name: "snapshot", wait, show });
    for (const { chart } of cursors)
      chart.addEventListener("click", (event) => {
        const { left, right, epochs } = chart.dataset, box = chart.getBoundingClientRect();
        const x = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
        const epoch = ((x - left) / (right - left)) * epochs;
        const far = replay.epochs.map((e) => Math.abs(e - epoch));
        go(far.indexOf(Math.min(...far)));
      });
  } else if (last === 0) show(0);
  all("input[name=edges]").forEach((choice) => choice.addEventListener("change", () => show(now)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    if (last >= 0) show(now);
  });
  document.documentElement.dataset.ready = "";
})();
