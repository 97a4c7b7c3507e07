/* Notes where each text that is aligned right begins. */
{
  const write = CanvasRenderingContext2D.prototype.fillText;
  globalThis.lefts = [];
  CanvasRenderingContext2D.prototype.fillText = function (words, x, y) {
    if (this.textAlign === "right") lefts.push(x - this.measureText(words).width);
    write.call(this, words, x, y);
  };
  null;
}
