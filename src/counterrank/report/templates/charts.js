// Draws every chart of the page in its place, as wide as that place. Where there is no room for the names at the right
// of the lines, they are left out, and the legend under the figure stands in.
(function () {
  "use strict";
  const NARROW = 460;
  const specs = JSON.parse(document.getElementById("specs").textContent);

  function lines(text) {
    const found = [""];
    for (const word of text.split(" ")) {
      const last = found.length - 1;
      if (found[last] && found[last].length + word.length > 36) found.push(word);
      else found[last] += (found[last] ? " " : "") + word;
    }
    return found;
  }

  function fitted(spec, narrow) {
    if (!narrow) return spec;
    const copy = JSON.parse(JSON.stringify(spec));
    if (copy.title && copy.title.text) copy.title.text = lines(copy.title.text);
    if (copy.layer && copy.layer.some((layer) => layer.name === "labels")) {
      const naming = ["leaders", "level leaders", "label markers", "labels"];
      copy.layer = copy.layer.filter((layer) => !naming.includes(layer.name));
    }
    return copy;
  }

  function draw(place) {
    const narrow = place.clientWidth < NARROW;
    if (place.dataset.narrow === String(narrow)) return;
    place.dataset.narrow = String(narrow);
    const figure = place.closest("figure");
    if (figure) figure.classList.toggle("narrow", narrow);
    vegaEmbed(place, fitted(specs[place.id], narrow), { renderer: "svg", actions: false, tooltip: { theme: "light" } })
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
