// The scalpel: the units of a model that are switched off, its weights that are held, and the history of both.

const TOLD = { off: ["is on again", "is off"], held: ["learns again", "is held"] }; // once undone, and once done
const UNDO = { off: "Switch on", held: "Let it learn" };

class Scalpel {
  constructor(model) {
    this.model = model;
    this.clear();
  }

  // The number of the unit or weight with this name. Throws RangeError if it does not exist or cannot be cut.
  numberOf(group, name) {
    const { units, names } = this.model;
    const found = group === "off" ? units.findIndex(([known]) => known === name) : names.indexOf(name);
    if (found >= 0 && (group === "held" || this.leadingFrom(found).length)) return found;
    const known = group === "held" ? names : units.map(([unit]) => unit).filter((_, unit) => this.leadingFrom(unit).length);
    const some = known.slice(0, 20).join(", ") + (known.length > 20 ? ", ..." : "");
    throw new RangeError(`${name} is not a ${group === "off" ? "unit before the output" : "weight"}: expected ${some}`);
  }

  // The weights of a unit's output, by their numbers among the parameters; none for the output of the model.
  leadingFrom(unit) {
    const { units, columns, names } = this.model, column = units[unit][3];
    const i = unit - units.findIndex((other) => other[3] === column);
    return (columns[column + 1] ?? []).map((next) => names.indexOf(`${next}.w${i}`));
  }

  // What the worker keeps fixed. If the weights that lead from a unit are 0, it is as if its output were 0. The unit's
  // own parameters do not learn.
  get cut() {
    const { units } = this.model, off = [...this.off], own = (unit) => [...units[unit][1], units[unit][2]];
    return { off: off.flatMap((unit) => this.leadingFrom(unit)), still: off.flatMap(own).filter((i) => i >= 0), held: [...this.held] };
  }

  // Puts a unit or weight into a group, or takes it out, and adds this to the history: once, while a weight is dragged.
  change(group, member, isIn, step, words) {
    const { history } = this, last = history.findLast((entry) => entry.group === group && entry.member === member);
    const name = group === "off" ? this.model.units[member][0] : this.model.names[member];
    this[group][isIn ? "add" : "delete"](member);
    if (last && (last.step === step || (last === history.at(-1) && last.isOpen === isIn))) history.splice(history.indexOf(last), 1);
    else if (last) last.isOpen = false;
    history.push({ step, group, member, words: `${name} ${TOLD[group][+isIn]}${words}`, isOpen: isIn });
  }

  clear() {
    Object.assign(this, { off: new Set(), held: new Set(), history: [] });
  }

  // Restarts the history from what is cut now.
  restart() {
    this.history = this.history.filter((entry) => entry.isOpen).map((entry) => ({ ...entry, step: 0 }));
  }

  // Shows the latest entries of the history, with a button to undo each one that still holds. They stay as long as the
  // history does: pressing a button takes longer than a frame.
  show(place, undo) {
    const entries = this.history.slice(-12), shown = JSON.stringify(entries);
    if (place.dataset.shown === shown) return;
    place.dataset.shown = shown;
    place.replaceChildren(...entries.reverse().map(({ step, group, member, words, isOpen }) => {
      const line = html("li", {}, `Step ${step}: ${words}. `);
      if (isOpen) line.append(html("button", { type: "button", onclick: () => undo(group, member) }, UNDO[group]));
      return line;
    }));
  }
}

// The panel of a unit: a button that switches it off or on, and its weights. The reader can type and hold them.
// Returns a function that shows the current numbers.
function unitPanel(place, network, unit, scalpel, { cut, setWeight }) {
  const name = scalpel.model.units[unit][0], table = html("table", {}, html("caption", {}, name)), refresh = [];
  place.replaceChildren(table);
  if (scalpel.leadingFrom(unit).length) {
    const button = html("button", { type: "button", onclick: () => cut("off", unit, !scalpel.off.has(unit)) });
    refresh.push(() => (button.textContent = scalpel.off.has(unit) ? "Switch on" : "Switch off"));
    place.prepend(button);
  }
  for (const [what, i] of network.weightsOf(unit)) {
    const input = html("input", { inputMode: "decimal", autocomplete: "off", size: 8, ariaLabel: what });
    const hold = html("button", { type: "button", ariaLabel: `Hold the ${what}`, onclick: () => cut("held", i, !scalpel.held.has(i)) });
    input.onchange = () => setWeight(i, Number(input.value.trim().replace("−", "-") || NaN));
    refresh.push((parameters) => {
      if (document.activeElement !== input) input.value = text(parameters[i]);
      hold.textContent = scalpel.held.has(i) ? "held" : "hold";
      setChanged(hold, "aria-pressed", String(scalpel.held.has(i)));
    });
    const cells = [html("th", { scope: "row" }, what), html("td", {}, input), html("td", {}, hold)];
    table.append(html("tr", {}, ...cells));
  }
  return (parameters) => refresh.forEach((show) => show(parameters));
}
