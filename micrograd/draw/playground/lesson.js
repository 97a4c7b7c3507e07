// A lesson: questions with the settings for their experiments. The page trains only after the question is answered.

class Lesson {
  // `open` is called with a part of the lesson, to apply its settings, and `drawn` whenever what it shows has changed.
  constructor(place, parts, open, drawn) {
    Object.assign(this, { place, parts, open, drawn, answers: parts.map(() => null) });
    place.hidden = false;
  }

  async go(number) {
    Object.assign(this, { number, hasTrained: false, isDone: false, isOpening: true });
    this.draw();
    await this.open(this.parts[number]);
    this.isOpening = false;
  }

  // Whether its question has been answered.
  get isAnswered() {
    return this.answers[this.number] !== null;
  }

  // How many more steps the page may take before it shows the outcome.
  left(steps) {
    return this.isDone ? Infinity : Math.max(1, this.parts[this.number].steps - steps);
  }

  // The page has trained: the answer can no longer be changed, and after enough steps, the outcome is shown. Returns
  // whether it has just been.
  trained(steps) {
    const isDone = steps >= this.parts[this.number].steps;
    if (this.isOpening || (this.hasTrained && this.isDone >= isDone)) return false; // or it was the training of the part before
    this.hasTrained = true;
    this.isDone ||= isDone;
    this.draw();
    return this.isDone;
  }

  draw() {
    const { number, parts, answers, place } = this, { text: question, answers: offered, after } = parts[number];
    const within = document.activeElement?.dataset.lesson;
    const chips = offered.map((words, i) => {
      const answer = () => { answers[number] = i; this.draw(); };
      const input = html("input", { type: "radio", name: "answer", checked: answers[number] === i, disabled: this.hasTrained, onchange: answer });
      input.dataset.lesson = `answer ${i}`;
      return html("label", {}, input, words);
    });
    const go = (words, to) => {
      const button = html("button", { type: "button", onclick: () => this.go(to), disabled: !parts[to] }, words);
      button.dataset.lesson = words;
      return button;
    };
    const outcome = () => `You said "${offered[answers[number]].replace(/(?<![.!?])$/, ".")}" ${after}`;
    const said = !this.isAnswered ? "Answer, then press Train." : this.isDone ? outcome() : "Press Train to see.";
    place.replaceChildren(
      html("fieldset", { className: "models" }, html("legend", {}, question), html("div", { className: "answers" }, ...chips)),
      html("p", { className: "said" }, html("span", { role: "status" }, said), go("Back", number - 1), `${number + 1} of ${parts.length}`, go("Next", number + 1)),
    );
    find(`[data-lesson="${within}"]`, place)?.focus();
    this.drawn();
  }
}
