// The page, put together from the parts before: finding, the buttons, and the first picture.

let hits = [],
  hit = -1;
const isHit = (i, wanted) =>
  graph.names[i].toLowerCase().includes(wanted) || (i >= first && operation(i)[0].toLowerCase() === wanted);
at("wanted").oninput = () => {
  const wanted = at("wanted").value.trim().toLowerCase();
  hits = wanted ? [...graph.names.keys()].filter(i => isHit(i, wanted)) : [];
  hit = -1;
  at("hits").textContent = wanted ? `${counted(hits.length)} found` : "";
};
at("find").onsubmit = event => {
  event.preventDefault();
  if (!hits.length) return;
  hit = (hit + 1) % hits.length;
  at("hits").textContent = `${counted(hit + 1)} of ${counted(hits.length)}`;
  choose(hits[hit]);
};
at("fold-all").onclick = () => views[0].items.filter(item => item.isOpen).forEach(fold);
document.addEventListener("keydown", event => {
  if (event.key === "Escape" && opened.length) fold(opened.at(-1));
});
find(".controls").append(html("output", { id: "result" })); // in sight wherever the page and the drawing are scrolled
at("result").style.width = `${nameOf(root).length + 12}ch`; // whatever number comes, nothing on the page moves
at("weights").hidden = !hasWeights;
window.addEventListener("resize", render);
render();
const [input] = views[0].items,
  { clientHeight, scrollHeight } = at("drawing");
if (scale * (input.top + input.h) > clientHeight) at("drawing").scrollTop = (scrollHeight - clientHeight) / 2; // where it is
const go = connectControls(end, show);
