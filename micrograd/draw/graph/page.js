// The page, put together from the parts before: finding, the buttons, and the first picture.

let hits = [],
  hit = -1;
const isHit = (i, wanted) =>
  graph.names[i].toLowerCase().includes(wanted) || (i >= first && operation(i)[0].toLowerCase() === wanted);
at("wanted").oninput = () => {
  const wanted = at("wanted").value.trim().toLowerCase();
  hits = wanted ? [...graph.names.keys()].filter(i => isHit(i, wanted)) : [];
  hit = -1;
  at("hits").textContent = wanted ? `${hits.length} found` : "";
};
at("find").onsubmit = event => {
  event.preventDefault();
  if (!hits.length) return;
  hit = (hit + 1) % hits.length;
  at("hits").textContent = `${hit + 1} of ${hits.length}`;
  choose(hits[hit]);
};
at("fold-all").onclick = () => views[0].items.filter(item => item.isOpen).forEach(fold);
document.addEventListener("keydown", event => {
  if (event.key === "Escape" && opened.length) fold(opened.at(-1));
});
find(".controls").append(html("output", { id: "result" })); // in sight wherever the page and the drawing are scrolled
at("result").style.width = `${nameOf(root).length + 12}ch`; // whatever number comes, nothing on the page moves
at("weights").hidden = !graph.views.some(([, , , edges]) => edges.some(([, , , , , weight]) => weight != null));
window.addEventListener("resize", render);
render();
const go = connectControls(end, show);
