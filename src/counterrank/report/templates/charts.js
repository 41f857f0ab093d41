// Draws every chart of the page in its place, as wide as that place. Where there is no room for the names at the right
// of the lines, they are left out, and the legend under the figure stands in.
(function () {
  "use strict";
  const NARROW = 460;
  const specs = JSON.parse(document.getElementById("specs").textContent);

  // A text in lines that fit, given how wide a letter is; the axis takes some room at the left.
  function lines(text, width, letter) {
    const most = Math.floor((width - 48) / letter);
    const found = [""];
    for (const word of text.split(" ")) {
      const last = found.length - 1;
      if (found[last] && found[last].length + word.length >= most) found.push(word);
      else found[last] += (found[last] ? " " : "") + word;
    }
    return found;
  }

  function titled(spec, width) {
    const copy = JSON.parse(JSON.stringify(spec));
    if (copy.title && copy.title.text) copy.title.text = lines(copy.title.text, width, 8.4);
    if (copy.title && copy.title.subtitle) copy.title.subtitle = lines(copy.title.subtitle, width, 7);
    return copy;
  }

  function fitted(spec, width) {
    const copy = titled(spec, width);
    if (width >= NARROW) return copy;
    for (const layer of copy.layer || []) {
      const y = (layer.encoding || {}).y;
      if (!y || y.field !== "label" || !y.axis) continue;
      // rows of dots: long names in two lines leave room for the dots
      y.axis.labelExpr = "split(replace(replace(datum.label, ' + ', '|+ '), ' (', '|('), '|')";
    }
    if (copy.layer && copy.layer.some((layer) => layer.name === "labels")) {
      const naming = ["leaders", "level leaders", "label markers", "labels"];
      copy.layer = copy.layer.filter((layer) => !naming.includes(layer.name));
    }
    return copy;
  }

  function draw(place) {
    const width = place.clientWidth;
    const narrow = width < NARROW;
    const { text = "", subtitle = "" } = titled(specs[place.id], width).title || {};
    const form = JSON.stringify([narrow, text, subtitle]);  // anything else follows the width by itself
    if (place.dataset.form === form) return;
    place.dataset.form = form;
    const figure = place.closest("figure");
    if (figure) figure.classList.toggle("narrow", narrow);
    vegaEmbed(place, fitted(specs[place.id], width), { renderer: "svg", actions: false, tooltip: { theme: "light" } })
      .then(() => { place.dataset.drawn = "yes"; })
      .catch((fault) => {
        console.error(fault);
        const line = document.createElement("p");
        line.className = "fault";
        line.textContent = "This chart could not be drawn: " + fault.message;
        place.replaceChildren(line);
      });
  }

  const places = Array.from(document.querySelectorAll(".chart"));
  places.forEach(draw);
  let waiting = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => places.forEach(draw), 150);
  });
})();
