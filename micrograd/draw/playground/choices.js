// The choices of a model: chips for each keyword with several values. If the values are lists of sizes, there are
// buttons − and + for layers and units instead.
// Models are numbered as in Python: the last keyword varies fastest.

class Choices {
  // `twins` has, for each model, the number of the first that is the same. `chosen` is called with a model's number,
  // `refused` with the reason why there is none.
  constructor(place, choices, twins, chosen, refused) {
    Object.assign(this, { choices, twins, chosen, refused, labels: choices.map(([, labels]) => labels[0]) });
    this.parts = choices.map(([name, labels, sizes], k) => {
      const legend = html("legend", {}, name), part = html("fieldset", { hidden: labels.length < 2 }, legend);
      const choose = (label) => this.change({ [name]: label });
      const shown = sizes ? this.steppers(part, name, labels, sizes, k, choose) : this.chips(part, name, labels, choose);
      place.append(part);
      return (label) => {
        shown(label);
        const isIdle = labels.every((other) => twins[this.numberOf({ [name]: other })] === twins[this.numberOf({})]);
        Object.assign(part, { disabled: isIdle, title: isIdle ? "This has no effect on this network." : "" });
      };
    });
  }

  // The number of the model that has these labels instead of the current ones. Throws RangeError if there is none.
  numberOf(labels) {
    for (const name in labels)
      if (!this.choices.some(([known, offered]) => known === name && offered.includes(labels[name])))
        throw new RangeError(`there is no choice ${name}: ${labels[name]}`);
    return this.choices.reduce((number, [name, offered], k) => number * offered.length + offered.indexOf(labels[name] ?? this.labels[k]), 0);
  }

  change(labels) {
    return this.chosen(this.numberOf(labels));
  }

  // The labels of a model, by keyword.
  labelsOf(number) {
    const found = [];
    for (const [name, labels] of [...this.choices].reverse()) {
      found.unshift([name, labels[number % labels.length]]);
      number = Math.floor(number / labels.length);
    }
    return Object.fromEntries(found);
  }

  show(number) {
    this.labels = Object.values(this.labelsOf(number));
    this.parts.forEach((show, k) => show(this.labels[k]));
  }

  chips(part, name, labels, choose) {
    part.className = "models";
    const inputs = labels.map((label) => {
      const input = html("input", { type: "radio", name: `choice of ${name}`, onchange: () => choose(label) });
      part.append(html("label", {}, input, label));
      return input;
    });
    return (label) => inputs.forEach((input, i) => (input.checked = labels[i] === label));
  }

  // A − and a + for the number of layers, and for the units of each layer. They lead to the nearest sizes on offer.
  steppers(part, name, labels, sizes, k, choose) {
    const most = Math.max(...sizes.map((each) => each.length));
    const now = () => sizes[labels.indexOf(this.labels[k])];
    const value = (each, layer) => (layer < 0 ? each.length : each.length === now().length ? each[layer] : now()[layer]);
    const far = (each) => Math.abs(each.length - now().length) * 1e6 + now().reduce((sum, size, i) => sum + Math.abs(size - (each[i] ?? size)), 0);
    const next = (layer, sign) => sizes.filter((each) => sign * (value(each, layer) - value(now(), layer)) > 0).sort((a, b) => far(a) - far(b))[0];
    const rows = Array.from({ length: most + 1 }, (_, i) => {
      const layer = i - 1, what = layer < 0 ? "layers" : `units of layer ${i}`, count = html("output", { ariaLabel: what });
      const buttons = [-1, 1].map((sign) => {
        const onclick = () => {
          const found = next(layer, sign);
          if (found) choose(labels[sizes.indexOf(found)]);
          else this.refused(`This page has networks with ${name} ${labels.join(", ")}. For others, give save_playground more choices.`);
        };
        return html("button", { type: "button", onclick, ariaLabel: `${sign < 0 ? "fewer" : "more"} ${what}` }, sign < 0 ? "−" : "+");
      });
      const row = html("span", { className: "stepper" }, buttons[0], count, buttons[1]);
      part.append(row);
      return () => {
        row.hidden = layer >= now().length;
        if (row.hidden) return;
        const n = value(now(), layer);
        count.textContent = `${n} ${layer < 0 ? "layer" : "unit"}${n === 1 ? "" : "s"}`;
        buttons.forEach((button, b) => button.setAttribute("aria-disabled", String(!next(layer, 2 * b - 1))));
      };
    });
    return () => rows.forEach((show) => show());
  }
}
